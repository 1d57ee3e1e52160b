//! `receive-fragments`: reading many boards, for several sizes of fragments.
//!
//! ```text
//!  105 boards ─ TCP ─► Group: receive, split │ bare: epoll, recv
//!  265 boards ─ UDP ─► Group                 │ the receiver alone
//! ```
//! See [`boards`](crate::boards): what is compared is the processor time of the reading thread, while emulated boards on
//! another one send as fast as it reads.

use crate::boards::{Over, receive_fragments as receive};

use super::build::FRAGMENT_BYTES;
use super::sweep::Sweep;
use super::{BenchError, Conditions, Measured};

const BENCH: &str = "receive-fragments";
const TCP_BOARDS: u16 = 105;
const UDP_BOARDS: u16 = 265;
const DATAGRAM_BYTES: usize = 1 << 10;

/// Measures all sizes.
pub(super) fn receive_fragments(conditions: &Conditions) -> Result<Measured, BenchError> {
    let tcp = FRAGMENT_BYTES.map(|bytes| (Over::Tcp, TCP_BOARDS, bytes));
    let all = tcp.into_iter().chain([(Over::Udp, UDP_BOARDS, DATAGRAM_BYTES)]);
    let points = all.map(|(over, boards, bytes)| {
        let name = if over == Over::Tcp { "TCP" } else { "UDP" };
        receive(over, boards, bytes, conditions.repeats)
            .map(|measured| measured.with("links", format!("{boards} boards, {name}")))
            .map_err(|error| BenchError::Room { bench: BENCH, message: error.to_string() })
    });
    let sweep = Sweep {
        bench: BENCH,
        title: "Receiving fragments, processor time of one thread".to_owned(),
        along: "fragment_bytes",
        x_title: "fragment / B",
        lines: Some("links"),
        points: points.collect::<Result<_, _>>()?,
        shows_ratio: true,
        logarithmic_x: true,
        logarithmic_y: false,
        guides: Vec::new(),
    };
    Ok(sweep.measured())
}
