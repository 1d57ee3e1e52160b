//! What every capture must satisfy, whatever is in it.
//!
//! ```text
//!  any bytes ─► PcapSource ─► frames ─► what came out is what was counted
//! ```

use std::cell::RefCell;
use std::time::Duration;

use thalweg_data::{Counters, Frames, Mark, Pool, Received, Source, Unit};

use super::{PcapFilter, PcapSource};

thread_local! {
    /// One pool per thread: a process can name a limited number, and a fuzzer calls without end.
    static POOL: RefCell<Pool> = RefCell::new(Pool::new(4, 4096).expect("the sizes are possible"));
}

/// Reads arbitrary bytes as a capture and panics when a balance equation does not hold: for fuzzing.
///
/// # Panics
/// As said.
pub fn check(bytes: &[u8]) {
    for port in [None, Some(51940)] {
        let pool = POOL.with_borrow(Clone::clone);
        let filter = PcapFilter { port, ..PcapFilter::default() };
        let input = Box::new(std::io::Cursor::new(bytes.to_vec()));
        let Ok(mut source) = PcapSource::read("checked".to_owned(), input, filter, pool) else { return };
        let (mut frames, mut mark, mut seen) = (Frames::default(), Mark(0), [0; 2]);
        for calls in 0.. {
            // Each call consumes a packet at least, and a packet has a header.
            assert!(calls <= bytes.len() + 1, "a capture ends");
            frames.clear();
            let received = source.receive(&mut frames, Duration::ZERO).expect("memory can be read");
            assert_ne!(received, Received::Full, "no block is held beyond its batch");
            assert!(frames.header.mark >= mark, "marks never go back");
            mark = frames.header.mark;
            seen[0] += frames.slices.len() as u64;
            seen[1] += frames.slices.iter().map(|slice| frames.bytes(*slice).len() as u64).sum::<u64>();
            check_counters(source.counters(), seen);
            if received == Received::End {
                break;
            }
        }
    }
}

pub(super) fn check_counters(counters: &Counters, seen: [u64; 2]) {
    for (unit, seen) in [Unit::Datagrams, Unit::Bytes].into_iter().zip(seen) {
        let lost = counters.total_lost_any(unit);
        assert_eq!(counters.total_output(unit), seen, "{unit} out are those that came out");
        assert_eq!(counters.total_input(unit), seen + counters.total_filtered(unit) + lost, "{unit} close");
    }
}
