//! What every input must satisfy: nothing panics or hangs, and the books close to the byte.
//!
//! ```text
//!  any bytes ─► datagrams or stream pieces ─► unpack ─► decode ─► Outcome { hits, books }   books.close()
//! ```
//! Tests and fuzz targets drive the same functions; the whole path from receive to hits runs as in a program, with a pool, a
//! carrying stream buffer and a ledger.

use thalweg_data::stream::{Room, StreamBuffer};
use thalweg_data::{
    Books, Decode, Extra, Frames, Hit, Hits, Ledger, Mark, Pool, Signal, SourceId, Stage, Statistics, Tally,
    Unit, Unpack,
};

use super::unpack::{TcpUnpack, UdpUnpack};
use super::{Decoder, Firmware, Settings, emit};

const SOURCE: SourceId = SourceId(0);
const BLOCK_BYTES: usize = 64 << 10;
const BLOCKS: usize = 64;
/// Largest event that [`udp_path`] takes.
pub const LARGEST_UNIT_BYTES: u64 = 1 << 20;

/// What came out at the end of the path.
#[derive(Debug, Default)]
pub struct Outcome {
    /// All hits.
    pub hits: Vec<Hit>,
    /// All extras; their slices are gone.
    pub extras: Vec<Extra>,
    /// Sample and user words of each extra, as received.
    pub words: Vec<(Vec<u8>, Vec<u8>)>,
    /// All statistics.
    pub statistics: Vec<Statistics>,
    /// All signals.
    pub signals: Vec<Signal>,
    /// The books at the end.
    pub books: Books,
}

/// The stages behind the receiver, with their accounts.
struct Path<'a> {
    unpack: &'a mut dyn Unpack,
    decoder: &'a mut Decoder,
    received: Tally,
    units: Frames,
    hits: Hits,
    outcome: Outcome,
}

impl<'a> Path<'a> {
    fn new(unpack: &'a mut dyn Unpack, decoder: &'a mut Decoder) -> Path<'a> {
        Path {
            unpack,
            decoder,
            received: Tally::default(),
            units: Frames::default(),
            hits: Hits::default(),
            outcome: Outcome::default(),
        }
    }

    fn batch(&mut self, frames: &Frames) -> usize {
        for (unit, count) in
            [(Unit::Datagrams, frames.slices.len() as u64), (Unit::Bytes, frames.byte_count())]
        {
            self.received.input(unit, count);
            self.received.output(unit, count);
        }
        self.units.clear();
        let carried = self.unpack.unpack(frames, &mut self.units);
        self.decode();
        carried
    }

    fn decode(&mut self) {
        self.hits.clear();
        self.decoder.decode(&self.units, &mut self.hits);
        let Hits { hits, extras, slices, leases, statistics, signals, .. } = &self.hits;
        let chain = |first: u32, count: u16| -> Vec<u8> {
            let first = first as usize;
            slices[first..first + usize::from(count)]
                .iter()
                .flat_map(|slice| leases.bytes(*slice))
                .copied()
                .collect()
        };
        let of = &mut self.outcome;
        of.hits.extend_from_slice(hits);
        of.words.extend(extras.iter().map(|extra| {
            (chain(extra.samples_first, extra.samples_count), chain(extra.words_first, extra.words_count))
        }));
        of.extras.extend_from_slice(extras);
        of.statistics.extend_from_slice(statistics);
        of.signals.extend(signals.iter().map(|(_, signal)| *signal));
    }

    fn finish(mut self) -> Outcome {
        self.units.clear();
        self.unpack.finish(&mut self.units);
        self.decode();
        let ledger = Ledger::create(None, &["board".to_owned()]).expect("anonymous memory is there");
        let accounts: [(Stage, &[Unit], &Tally); 4] = [
            (Stage::Wire, &[Unit::Datagrams, Unit::Frames], self.unpack.wire_tally()),
            (Stage::Receive, &[Unit::Datagrams, Unit::Bytes], &self.received),
            (Stage::Unpack, &[Unit::Datagrams, Unit::Bytes, Unit::Frames], self.unpack.tally()),
            (Stage::Decode, &[Unit::Bytes, Unit::Frames, Unit::Hits], self.decoder.tally()),
        ];
        for (stage, units, tally) in accounts {
            ledger.open(stage, SOURCE, units).publish(tally);
        }
        self.outcome.books = ledger.books();
        self.outcome
    }
}

/// Receives `datagrams`, `per_batch` at a time, and follows them to the end.
///
/// # Panics
/// When the machine has no 4 MiB of memory left, or a law of slices and leases is broken.
pub fn udp_path<'d>(
    decoder: &mut Decoder,
    datagrams: impl IntoIterator<Item = &'d [u8]>,
    per_batch: usize,
) -> Outcome {
    let pool = Pool::new(BLOCKS, BLOCK_BYTES).expect("4 MiB are there");
    let mut unpack = UdpUnpack::new(SOURCE, LARGEST_UNIT_BYTES);
    let mut path = Path::new(&mut unpack, decoder);
    let mut writer = None;
    let mut frames = Frames::default();
    for datagram in datagrams.into_iter().filter(|datagram| datagram.len() <= BLOCK_BYTES) {
        if writer
            .as_ref()
            .is_none_or(|writer: &thalweg_data::BlockWriter| writer.remaining() < datagram.len())
        {
            writer = pool.take();
        }
        let writer = writer.as_mut().expect("a unit and a batch hold a part of the pool");
        let slice = writer.append(datagram).expect("there is room");
        frames.slices.push(slice);
        frames.leases.add(writer.lease());
        if frames.slices.len() >= per_batch {
            path.batch(&frames);
            frames.clear();
        }
    }
    path.batch(&frames);
    frames.clear();
    path.finish()
}

/// Receives a stream in `pieces` through a carrying buffer and follows it to the end. `blob` says that there are no packet
/// headers.
///
/// # Panics
/// As for [`udp_path`].
pub fn stream_path<'p>(
    decoder: &mut Decoder,
    pieces: impl IntoIterator<Item = &'p [u8]>,
    blob: bool,
) -> Outcome {
    let pool = Pool::new(4, BLOCK_BYTES).expect("256 KiB are there");
    let mut buffer = StreamBuffer::new(pool, 4096);
    let mut unpack = match blob {
        true => TcpUnpack::of_blob(SOURCE, BLOCK_BYTES),
        false => TcpUnpack::new(SOURCE, BLOCK_BYTES),
    };
    let mut path = Path::new(&mut unpack, decoder);
    let mut frames = Frames::default();
    for mut piece in pieces {
        while !piece.is_empty() {
            frames.clear();
            let Room::Tail(tail) = buffer.room() else {
                panic!("the unpacker never carries a whole block, and batches return theirs");
            };
            let length = tail.len().min(piece.len());
            tail[..length].copy_from_slice(&piece[..length]);
            piece = &piece[length..];
            buffer.publish(length, &mut frames);
            frames.header.mark = Mark(0);
            let carried = path.batch(&frames);
            buffer.carry(carried);
            path.units.clear();
            path.hits.clear();
        }
    }
    frames.clear();
    path.finish()
}

/// A decoder chosen by one byte of input.
fn decoder_of(choice: u8) -> Decoder {
    let firmware = match choice & 7 {
        0 | 5 | 6 | 7 => Firmware::Psd,
        1 => Firmware::Pha,
        2 => Firmware::OpenDpp,
        3 => Firmware::Zle,
        _ => Firmware::Scope,
    };
    let tick_ps = if choice & 8 == 0 { 8000.0 } else { 1.953125 };
    let channels = if choice & 16 == 0 { 128 } else { 64 };
    let settings = Settings { firmware, tick_ps, channels, ..Settings::default() };
    Decoder::new(SOURCE, &settings).expect("all of these are valid")
}

/// Any bytes as datagrams: the first byte chooses the firmware; then, again and again, one byte says how, two how long, and
/// the datagram follows. Bit 0 of *how* has its footer made as a board would, with aligned and last from bits 1 and 2; bit 3
/// leaves one datagram id out. Every law must hold; the outcome is returned for more.
///
/// # Panics
/// When a law does not hold.
pub fn udp_stream(input: &[u8]) -> Outcome {
    let Some((choice, mut rest)) = input.split_first() else { return Outcome::default() };
    let mut datagrams = Vec::new();
    let (mut buffer_id, mut datagram_id) = (0u16, 0u32);
    while let [how, high, low, tail @ ..] = rest {
        let length = (usize::from(u16::from_be_bytes([*high, *low])) % 2048).min(tail.len());
        let (bytes, tail) = tail.split_at(length);
        rest = tail;
        let mut datagram = bytes.to_vec();
        if how & 1 == 1 {
            datagram.truncate(length / 8 * 8);
            let data = std::mem::take(&mut datagram);
            let (aligned, last) = (how & 2 != 0, how & 4 != 0);
            datagram_id += u32::from(how & 8 != 0);
            emit::datagram(&mut datagram, &data, buffer_id, datagram_id, aligned, last);
            datagram_id += 1;
            if last {
                (buffer_id, datagram_id) = (buffer_id.wrapping_add(1), 0);
            }
        }
        datagrams.push(datagram);
    }
    let mut decoder = decoder_of(*choice);
    let per_batch = usize::from(*choice >> 5) * 3 + 1;
    let outcome = udp_path(&mut decoder, datagrams.iter().map(Vec::as_slice), per_batch);
    expect_laws(&outcome);
    outcome
}

/// Any bytes as a TCP stream: the first byte chooses the firmware, the second into what pieces it is cut.
///
/// # Panics
/// When a law does not hold.
pub fn tcp_stream(input: &[u8]) -> Outcome {
    let [choice, cut, stream @ ..] = input else { return Outcome::default() };
    let outcome = stream_path(&mut decoder_of(*choice), stream.chunks(usize::from(*cut) * 7 + 1), false);
    expect_laws(&outcome);
    outcome
}

/// Any bytes as what a blob holds, its first event's header made to fit when bit 7 of the first byte, which also chooses the
/// firmware, is set.
///
/// # Panics
/// When a law does not hold.
pub fn aggregate(input: &[u8]) -> Outcome {
    let Some((choice, content)) = input.split_first() else { return Outcome::default() };
    let mut blob = Vec::new();
    match choice & 128 {
        0 => blob.extend_from_slice(content),
        _ => {
            let start = emit::begin_aggregate(&mut blob, 0, false, false);
            blob.extend_from_slice(&content[..content.len() / 8 * 8]);
            emit::end_aggregate(&mut blob, start);
        }
    }
    let outcome = stream_path(&mut decoder_of(*choice), [blob.as_slice()], true);
    expect_laws(&outcome);
    outcome
}

/// The books close, and the k-th hit with an extra owns row k.
///
/// # Panics
/// When that is not so.
pub fn expect_laws(outcome: &Outcome) {
    let discrepancies = outcome.books.discrepancies();
    assert!(discrepancies.is_empty(), "the books do not close: {discrepancies:?}");
    let with_extra = outcome.hits.iter().filter(|hit| hit.flags.has(thalweg_data::Flags::EXTRA));
    let times = with_extra.map(|hit| hit.time_ps);
    assert!(times.eq(outcome.extras.iter().map(|extra| extra.time_ps)), "extras belong to their hits");
}
