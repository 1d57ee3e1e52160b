//! The way to each board: whether the longest datagram passes it whole.
//!
//! ```text
//!  board's address ─► a datagram that may not be cut ─► Check
//! ```
//! The way that matters is from the board to us, and is tried in the other direction: switches treat both alike, routers may not.

use std::net::IpAddr;
use std::time::Duration;

use thalweg_transport::{PathAnswer, probe_path};

use super::check::{Check, Severity};
use super::needs::Needs;

/// The most routes that are tried: of many boards, those on one switch are alike.
const MOST_PROBED: usize = 8;
/// The time to wait for an answer.
const WAIT: Duration = Duration::from_millis(200);

/// A check for each board, the first of them.
pub(super) fn checks(needs: &Needs) -> Vec<Check> {
    let ways = needs.boards.iter().take(MOST_PROBED);
    ways.map(|board| {
        let payload_bytes = usize::try_from(needs.datagram_bytes).unwrap_or(usize::MAX).min(65_507);
        check(*board, payload_bytes, probe_path(*board, payload_bytes, WAIT))
    })
    .collect()
}

fn check(board: IpAddr, payload_bytes: usize, answer: PathAnswer) -> Check {
    let why = "a switch throws away what is longer than it was set for, and says nothing";
    let check = Check::of(format!("MTU of the way ({board})"), Severity::Error, why).wanting(format!(
        "datagrams with {payload_bytes} bytes pass uncut: the MTU of every card and switch port on the way"
    ));
    match answer {
        PathAnswer::Arrived => check.found(format!("{payload_bytes} bytes arrive whole"), true),
        PathAnswer::TooLong => {
            check.found(format!("{payload_bytes} bytes are too long for our card, or for a router on the way"), false)
        }
        PathAnswer::Swallowed => check.found(
            format!("short datagrams are answered and those with {payload_bytes} bytes are not: a switch throws them away"),
            false,
        ),
        PathAnswer::Unknown(why) => check.unknown(why),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::CheckVerdict;
    use super::*;

    #[test]
    fn silence_is_bad_only_where_a_short_datagram_is_answered() {
        let board = "10.0.0.9".parse().expect("an address");
        assert!(check(board, 8972, PathAnswer::Swallowed).is_error());
        let silent = std::io::Error::new(std::io::ErrorKind::TimedOut, "nobody answers");
        let unknown = check(board, 8972, PathAnswer::Unknown(silent));
        assert_eq!(
            (unknown.verdict, unknown.value.as_str()),
            (CheckVerdict::Unknown, "unknown: nobody answers")
        );
    }
}
