//! Compares what a disk sustains with what a plan needs.
//!
//! ```text
//!  write pass, slowest position ─► sustained, lowest second ─┐
//!  what the plan needs ──────────────────────────────────────┴► passes | does not pass | not known
//! ```
//! A page cache flatters: what is too slow with it is too slow, and what is quick enough with it is not known.

use schemars::JsonSchema;
use serde::Serialize;

use super::error::bytes_text;
use super::report::{DirectoryReport, Pass, Work};
use super::series::Rate;
use super::transfer::Access;

/// The judgement of a disk against a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// Mean and lowest second are at least what is needed.
    Passes,
    /// One of them is not.
    DoesNotPass,
    /// It was not shown.
    NotKnown,
}

/// The verdict for a planned run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StorageVerdict {
    /// The rate that the plan needs, bytes per second.
    pub needs_bytes_per_s: f64,
    /// The rate that the disk sustains while it is written alone, bytes per second; with `--fill`, at its slowest position.
    pub sustains_bytes_per_s: f64,
    /// The lowest whole second of that; null where none went by.
    pub lowest_second_bytes_per_s: Option<f64>,
    /// The most bytes that wait where data come evenly at the needed rate: a buffer of this size bridges the slow seconds.
    pub waiting_bytes: f64,
    /// The rate at which it writes while an older file is read back, bytes per second.
    pub while_reading_bytes_per_s: Option<f64>,
    /// The verdict.
    pub judgement: Judgement,
    /// The judgement as a sentence.
    pub words: String,
}

impl StorageVerdict {
    /// Judges what was measured; `None` where nothing was written.
    pub(super) fn of(report: &DirectoryReport, needs_bytes_per_s: f64) -> Option<StorageVerdict> {
        let written = |work: Work, access: Access| {
            let is = |pass: &&Pass| pass.work == work && pass.access == access;
            report.passes.iter().filter(is).find_map(|pass| Some((pass, pass.write.as_ref()?)))
        };
        // The recorder writes through the page cache.
        let (pass, rate) =
            written(Work::Write, Access::Buffered).or_else(|| written(Work::Write, Access::Direct))?;
        let mixed = written(Work::Mixed, pass.access).map(|(_, rate)| rate.bytes_per_s);
        let slowest = report.positions.iter().map(|position| &position.write);
        let rates: Vec<&Rate> = slowest.chain([rate]).collect();
        let medium = match pass.is_beyond_page_cache {
            _ if report.site.is_in_memory() => Medium::Memory,
            Some(true) => Medium::Disk,
            Some(false) | None => Medium::PageCache,
        };
        let mut verdict = judged(&rates, medium, needs_bytes_per_s);
        verdict.while_reading_bytes_per_s = mixed;
        if let Some(mixed) = mixed {
            verdict.words += &format!("; while an older file is read back it writes {}/s", bytes_text(mixed));
        }
        Some(verdict)
    }
}

/// What the written bytes may lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Medium {
    /// The disk, beyond the page cache.
    Disk,
    /// The page cache, in part.
    PageCache,
    /// Memory alone: there is no disk.
    Memory,
}

/// Judges by the slowest of several rates.
fn judged(rates: &[&Rate], medium: Medium, needs: f64) -> StorageVerdict {
    let sustains = rates.iter().map(|rate| rate.bytes_per_s).fold(f64::INFINITY, f64::min);
    let lowest = rates.iter().filter_map(|rate| rate.lowest_second_bytes_per_s).reduce(f64::min);
    let waiting = rates.iter().map(|rate| rate.waiting_bytes(needs)).fold(0.0, f64::max);
    let rate = |bytes_per_s: f64| format!("{}/s", bytes_text(bytes_per_s));
    let (judgement, because) = match lowest {
        _ if sustains < needs => (Judgement::DoesNotPass, "does not pass".to_owned()),
        Some(lowest) if lowest < needs => {
            let buffer = bytes_text(waiting);
            let because = format!(
                "does not pass: its lowest second is below; only a buffer of {buffer} before it would bridge that"
            );
            (Judgement::DoesNotPass, because)
        }
        _ if medium == Medium::Memory => {
            let because = "not known: it lies in memory, so that no disk was measured; choose a directory on the disk that is to record";
            (Judgement::NotKnown, because.to_owned())
        }
        _ if medium == Medium::PageCache => {
            let because = "not known: what was written may lie in the page cache; write more with --bytes, or choose --sync batch or --access direct";
            (Judgement::NotKnown, because.to_owned())
        }
        None => {
            (Judgement::NotKnown, "not known: it took less than a second; write more with --bytes".to_owned())
        }
        Some(_) => (Judgement::Passes, "passes".to_owned()),
    };
    let seconds: f64 = rates.iter().map(|rate| rate.seconds + rate.forced_seconds).sum();
    let verb = if medium == Medium::Disk { "sustains" } else { "took" };
    let lowest_text = lowest
        .map_or("lowest second not known".to_owned(), |lowest| format!("lowest second {}", rate(lowest)));
    let words = format!(
        "this disk {verb} {} ({lowest_text}); your plan needs {}: {because}; measured over {seconds:.1} s",
        rate(sustains),
        rate(needs)
    );
    StorageVerdict {
        needs_bytes_per_s: needs,
        sustains_bytes_per_s: sustains,
        lowest_second_bytes_per_s: lowest,
        waiting_bytes: waiting,
        while_reading_bytes_per_s: None,
        judgement,
        words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(mean: f64, lowest: Option<f64>) -> Rate {
        Rate {
            bytes: 1,
            seconds: 1.0,
            forced_seconds: 0.0,
            bytes_per_s: mean,
            lowest_second_bytes_per_s: lowest,
            longest_call_s: 0.0,
            fall: None,
            step_s: 0.1,
            steps_bytes_per_s: vec![lowest.unwrap_or(mean); 10],
        }
    }

    #[test]
    fn a_disk_passes_only_when_its_lowest_second_does_and_the_cache_plays_no_part() {
        let of = |mean, lowest, beyond: bool| {
            let medium = if beyond { Medium::Disk } else { Medium::PageCache };
            judged(&[&rate(mean, lowest)], medium, 500e6)
        };
        let passes = of(900e6, Some(600e6), true);
        assert_eq!(passes.judgement, Judgement::Passes);
        assert_eq!(
            passes.words,
            "this disk sustains 900 MB/s (lowest second 600 MB/s); your plan needs 500 MB/s: passes; measured over 1.0 s"
        );
        assert_eq!(of(400e6, Some(390e6), true).judgement, Judgement::DoesNotPass);
        assert_eq!(of(400e6, None, false).judgement, Judgement::DoesNotPass, "with the cache, too");
        let dips = of(900e6, Some(400e6), true);
        assert!(
            dips.judgement == Judgement::DoesNotPass && dips.words.contains("buffer of 100 MB"),
            "{}",
            dips.words
        );
        assert_eq!(of(900e6, Some(600e6), false).judgement, Judgement::NotKnown);
        assert_eq!(of(900e6, None, true).judgement, Judgement::NotKnown);
    }

    #[test]
    fn a_directory_in_memory_says_nothing_of_a_disk_and_no_option_changes_that() {
        let verdict = judged(&[&rate(900e6, Some(600e6))], Medium::Memory, 500e6);
        assert_eq!(verdict.judgement, Judgement::NotKnown);
        assert!(
            verdict.words.contains("it lies in memory") && !verdict.words.contains("--"),
            "{}",
            verdict.words
        );
    }

    #[test]
    fn the_slowest_position_decides() {
        let (outer, inner) = (rate(250e6, Some(240e6)), rate(120e6, Some(110e6)));
        let verdict = judged(&[&outer, &inner], Medium::Disk, 150e6);
        assert_eq!((verdict.judgement, verdict.sustains_bytes_per_s), (Judgement::DoesNotPass, 120e6));
    }
}
