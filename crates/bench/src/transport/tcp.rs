//! Receiving a stream that has come already.
//!
//! ```text
//!  sender writes 2 MiB ─► the kernel's receive buffer ─► drained: our receiver │ bare loop      processor time of draining
//! ```
//! A receiver that reads while the sender writes is the faster the more often it finds nothing, and pays for waiting: such
//! a comparison says more about who waits when than about what receiving costs.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use thalweg_data::measure::{Clock, Measurement, compare};
use thalweg_data::{Frames, Pool};

use super::{BLOCK_BYTES, FOOTPRINT_BLOCKS, Footprint, WAIT, wait_readable};
use thalweg_transport::{
    TcpReceiver, TcpReceiverSettings, TransportError, send_by_window_on_loopback, thread_cpu_time,
};

/// Bytes that one turn receives.
const TURN_BYTES: usize = 256 << 20;
/// Bytes that are there before they are drained: well within the receive buffer.
const ROUND_BYTES: usize = 2 << 20;
/// The kernel's receive buffer, of both.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;

/// Receives a stream over loopback, `repeats` times: bytes per second of the receiving thread's processor time, against a
/// bare loop.
///
/// # Errors
/// When loopback sockets cannot be opened.
pub fn receive_tcp(repeats: usize) -> Result<Measurement, TransportError> {
    let failed =
        |cause| TransportError::System { place: "tcp://127.0.0.1".to_owned(), call: "listen", cause };
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let pool = Pool::new(8, BLOCK_BYTES).map_err(|error| TransportError::Settings(error.to_string()))?;
    let settings = TcpReceiverSettings {
        address,
        receive_buffer_bytes: RECEIVE_BUFFER_BYTES,
        connect_wait: Duration::from_secs(2),
    };
    let mut receiver = TcpReceiver::connect(&settings, pool)?;
    let to_receiver = start_sender(listener.accept().map_err(failed)?.0);
    let mut stream = connect_bare(address).map_err(failed)?;
    let to_stream = start_sender(listener.accept().map_err(failed)?.0);
    stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true)).map_err(failed)?;
    let mut cold = Footprint::new(FOOTPRINT_BLOCKS, BLOCK_BYTES);
    let mut hot = Footprint::new(1, BLOCK_BYTES);
    let compared = compare(
        Clock::Processor,
        repeats,
        || subject_turn(&mut receiver, &to_receiver),
        || bare_turn(&mut stream, &to_stream, &mut cold, true),
    );
    let against_hot = compare(
        Clock::Processor,
        repeats,
        || subject_turn(&mut receiver, &to_receiver),
        || bare_turn(&mut stream, &to_stream, &mut hot, false),
    );
    let baseline = "a bare recv loop: same socket options, same sizes, two blocks in turn";
    Ok(Measurement::of_rate("receive-tcp", "B/s", TURN_BYTES as f64, baseline, compared)
        .with("time", "processor time of draining what has come")
        .with("round_bytes", ROUND_BYTES)
        .with("footprint_bytes", FOOTPRINT_BLOCKS * BLOCK_BYTES)
        .with("ratio_to_hot_buffer", against_hot.speed_ratio)
        .repeated(repeats))
}

/// A connection with the same options as the receiver's.
fn connect_bare(address: std::net::SocketAddr) -> std::io::Result<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    thalweg_transport::ReceiveBuffer::ask(socket.as_fd(), RECEIVE_BUFFER_BYTES)?;
    socket.connect(&address.into())?;
    Ok(socket.into())
}

/// A thread that writes a round each time it is asked, and says when it has.
struct Rounds {
    ask: Sender<()>,
    written: Receiver<()>,
}

fn start_sender(mut stream: TcpStream) -> Rounds {
    send_by_window_on_loopback(&stream);
    let ((ask, asked), (notify, written)) = (channel(), channel());
    std::thread::spawn(move || {
        let round = vec![7; ROUND_BYTES];
        for () in asked {
            if stream.write_all(&round).is_err() || notify.send(()).is_err() {
                return;
            }
        }
    });
    Rounds { ask, written }
}

impl Rounds {
    /// Waits until a whole round is in the receive buffer.
    fn fill(&self) -> bool {
        self.ask.send(()).is_ok() && self.written.recv().is_ok()
    }
}

fn subject_turn(receiver: &mut TcpReceiver, rounds: &Rounds) -> Duration {
    let (mut spent, mut frames) = (Duration::ZERO, Frames::default());
    for _ in 0..TURN_BYTES / ROUND_BYTES {
        if !rounds.fill() {
            break;
        }
        let (start, mut bytes) = (thread_cpu_time(), 0);
        while bytes < ROUND_BYTES {
            frames.clear();
            if receiver.receive(&mut frames, WAIT).is_err() {
                break;
            }
            bytes += frames.byte_count() as usize;
        }
        spent += thread_cpu_time() - start;
    }
    spent
}

fn bare_turn(stream: &mut TcpStream, rounds: &Rounds, memory: &mut Footprint, moves: bool) -> Duration {
    let mut spent = Duration::ZERO;
    for _ in 0..TURN_BYTES / ROUND_BYTES {
        if !rounds.fill() {
            break;
        }
        let (start, mut bytes) = (thread_cpu_time(), 0);
        while bytes < ROUND_BYTES {
            match stream.read(memory.tail(BLOCK_BYTES / 8)) {
                Ok(0) => break,
                Ok(received) => {
                    bytes += received;
                    if moves {
                        memory.advance(received);
                    }
                }
                Err(_) => drop(wait_readable(stream.as_fd(), WAIT)),
            }
        }
        spent += thread_cpu_time() - start;
    }
    spent
}
