//! Properties that every view must satisfy, whatever bytes it is given.
//!
//! ```text
//!  any bytes ─► packet · status · chunk of a hub ─► never more than was given; emitting it gives the same bytes
//! ```

use super::{
    ByteOrder, HubCode, HubReplies, HubReply, HubRequest, Info, LENGTH_BYTES, Operation, Packet, Replies,
    Reply, ReplyPacket, Request, RequestPacket, Requests, Status, Target, TransactionHeader, frame_bytes,
    resend, status_request,
};

/// A valid example of each packet and chunk, as the corpus that fuzzing starts from.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for order in [ByteOrder::Big, ByteOrder::Little] {
        let (mut asked, mut answered) = (Vec::new(), Vec::new());
        let mut requests = RequestPacket::begin(7, order, &mut asked);
        requests.read(1, Operation::Read, 0x1000, 3);
        requests.write(2, Operation::Write, 0x2000, &[1, 2]);
        requests.change_bits(3, 0x10, !0xF, 0x5);
        requests.add(4, 0x10, 1);
        requests.read(5, Operation::ReadFifo, 0x30, 2);
        requests.read(6, Operation::ReadConfiguration, 0, 1);
        let mut replies = ReplyPacket::begin(7, order, &mut answered);
        for (id, operation, info) in
            [(1, Operation::Read, Info::Success), (2, Operation::Write, Info::ErrorOnWrite)]
        {
            let opened = replies.open();
            let words = if operation == Operation::Read { 3 } else { 0 };
            replies.words(&[0xCAFE_BABE; 3][..words]);
            replies.end(opened, TransactionHeader { id, words: words as u8, operation, info });
        }
        seeds.extend([asked, answered]);
    }
    let status = Status {
        buffer_bytes: 1500,
        buffers: 4,
        next_id: 9,
        history: [0; 16],
        received: [0x2000_07F0; 4],
        sent: [0x2000_07F0; 4],
    };
    seeds.extend([status_request().to_vec(), status.bytes().to_vec(), resend(7).to_vec()]);
    let target = Target { address: std::net::Ipv4Addr::LOCALHOST, port: 50_001 };
    let (mut request, mut reply) = (Vec::new(), Vec::new());
    // The packets are short and whole words, so this cannot fail.
    let _ = HubRequest::append(target, &[&seeds[0], &seeds[2]], &mut request);
    let answers = [&seeds[1], &seeds[3]].map(|packet| HubReply { target, code: HubCode::Fine, packet });
    HubReply::append(answers.into_iter(), &mut reply);
    let behind_lengths = [request, reply].map(|chunk| chunk[LENGTH_BYTES..].to_vec());
    seeds.into_iter().chain(behind_lengths).collect()
}

/// Reads arbitrary bytes through every view, and checks what each one finds against the bytes: for fuzzing.
///
/// # Panics
/// When a view panics, finds more than there is, or does not emit the same bytes.
pub fn check(bytes: &[u8]) {
    if let Ok(Packet::Control(control)) = Packet::check(bytes) {
        let words = control.body.len();
        let asked = |request: Request<'_>| 1 + request.operation.request_words(request.words.into());
        assert!(Requests::of(control).flatten().map(asked).sum::<usize>() <= words, "beyond the packet");
        let answered = |reply: Reply<'_>| 1 + reply.data.len();
        assert!(Replies::of(control).flatten().map(answered).sum::<usize>() <= words, "beyond the packet");
    }
    if let Ok(status) = Status::check(bytes) {
        assert_eq!(Status::check(&status.bytes()), Ok(status), "a status is emitted as it was read");
    }
    if let Ok(chunk) = HubRequest::check(bytes) {
        let items: Vec<&[u8]> = chunk.items().collect();
        let mut again = Vec::new();
        HubRequest::append(chunk.target, &items, &mut again).expect("a valid chunk");
        assert_eq!(&again[LENGTH_BYTES..], bytes, "a chunk is emitted as it was read");
    }
    if let Ok(replies) = HubReplies::of(bytes).collect::<Result<Vec<_>, _>>() {
        let mut again = Vec::new();
        HubReply::append(replies.iter().copied(), &mut again);
        assert_eq!(&again[LENGTH_BYTES..], bytes, "replies are emitted as they were read");
    }
    if let Some(length) = bytes.first_chunk() {
        let _ = frame_bytes(*length, 1 << 20);
    }
}
