//! Receiving a stream while its sender writes as fast as it can.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use thalweg_data::measure::{Measurement, compare};
use thalweg_data::{Frames, Pool};

use super::{BLOCK_BYTES, FOOTPRINT_BLOCKS, Footprint, WAIT};
use crate::system::{self, thread_cpu_time};
use crate::{TcpReceiver, TcpReceiverSettings, TransportError};

/// Bytes that one turn receives.
const TURN_BYTES: usize = 256 << 20;
/// Bytes per write call of the sender.
const WRITE_BYTES: usize = 256 << 10;

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
    let settings =
        TcpReceiverSettings { address, receive_buffer_bytes: 0, connect_wait: Duration::from_secs(2) };
    let mut receiver = TcpReceiver::connect(&settings, pool)?;
    let to_receiver = start_sender(listener.accept().map_err(failed)?.0);
    let mut stream = TcpStream::connect(address).map_err(failed)?;
    let to_stream = start_sender(listener.accept().map_err(failed)?.0);
    stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true)).map_err(failed)?;
    let mut cold = Footprint::new(FOOTPRINT_BLOCKS, BLOCK_BYTES);
    let mut hot = Footprint::new(1, BLOCK_BYTES);
    let mut wall = Duration::ZERO;
    let compared = compare(
        repeats,
        || {
            let start = Instant::now();
            let spent = subject_turn(&mut receiver, &to_receiver);
            wall += start.elapsed();
            spent
        },
        || bare_turn(&mut stream, &to_stream, &mut cold, true),
    );
    let against_hot = compare(
        repeats,
        || subject_turn(&mut receiver, &to_receiver),
        || bare_turn(&mut stream, &to_stream, &mut hot, false),
    );
    let turns = repeats.max(1) + 1;
    let yardstick = "a bare recv loop: same socket options, same sizes, two blocks in turn";
    Ok(Measurement::of_rate("receive-tcp", "B/s", TURN_BYTES as f64, yardstick, compared)
        .with("time", "processor time of the receiving thread, while a sender saturates it")
        .with("bytes_per_second", (turns * TURN_BYTES) as f64 / wall.as_secs_f64())
        .with("write_bytes", WRITE_BYTES)
        .with("footprint_bytes", FOOTPRINT_BLOCKS * BLOCK_BYTES)
        .with("ratio_to_hot_buffer", against_hot.speed_ratio)
        .repeated(repeats))
}

/// A thread that writes as many bytes as it is asked for, until nobody asks any more.
fn start_sender(mut stream: TcpStream) -> Sender<usize> {
    let (ask, asked): (Sender<usize>, Receiver<usize>) = channel();
    std::thread::spawn(move || {
        let piece = vec![7; WRITE_BYTES];
        for mut left in asked {
            while left > 0 {
                let length = left.min(piece.len());
                if stream.write_all(&piece[..length]).is_err() {
                    return;
                }
                left -= length;
            }
        }
    });
    ask
}

fn subject_turn(receiver: &mut TcpReceiver, sender: &Sender<usize>) -> Duration {
    let start = thread_cpu_time();
    let (mut bytes, mut frames) = (0, Frames::default());
    if sender.send(TURN_BYTES).is_err() {
        return Duration::ZERO;
    }
    while bytes < TURN_BYTES {
        frames.clear();
        if receiver.receive(&mut frames, WAIT).is_err() {
            break;
        }
        bytes += frames.byte_count() as usize;
    }
    thread_cpu_time() - start
}

fn bare_turn(
    stream: &mut TcpStream,
    sender: &Sender<usize>,
    memory: &mut Footprint,
    moves: bool,
) -> Duration {
    let start = thread_cpu_time();
    let mut bytes = 0;
    if sender.send(TURN_BYTES).is_err() {
        return Duration::ZERO;
    }
    while bytes < TURN_BYTES {
        match stream.read(memory.tail(BLOCK_BYTES / 8)) {
            Ok(0) => break,
            Ok(received) => {
                bytes += received;
                if moves {
                    memory.advance(received);
                }
            }
            Err(_) => drop(system::wait_readable(stream.as_fd(), WAIT)),
        }
    }
    thread_cpu_time() - start
}
