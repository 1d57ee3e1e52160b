//! What is said of a run when it has ended.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use serde::Serialize;
use thalweg_data::{Books, ledger::Entries, ledger::Loss};

/// One source at the end.
#[derive(Clone, Debug, Serialize)]
pub struct SourceSummary {
    /// Its name.
    pub name: String,
    /// How it was set up.
    pub description: String,
    /// Hits decoded.
    pub hits: u64,
    /// Bytes received.
    pub bytes: u64,
    /// The kernel's counters and the like, which place losses and are added to nothing.
    pub witnesses: BTreeMap<&'static str, u64>,
}

/// The end of a run, as `--json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// `stopped`, or `failed` with the reason in `failures`.
    pub state: &'static str,
    /// Where the recording is.
    pub run_directory: Option<PathBuf>,
    /// How long data were taken.
    pub elapsed_seconds: f64,
    /// Hits that the senders count, where every sender tells.
    pub hits_sent: Option<u64>,
    /// Hits on file (or ordered, when nothing is recorded).
    pub hits_recorded: u64,
    /// Hits known to be lost, at any stage.
    pub hits_lost: u64,
    /// Whether every sum in the books closes, at the end and in every snapshot on the way.
    pub ledger_closed: bool,
    /// Where they do not.
    pub discrepancies: Vec<String>,
    /// Numbered snapshots whose books were checked while the run went on.
    pub snapshots: u64,
    /// From the start of the sources to the first hit passed to the recording.
    pub first_hit_ms: Option<f64>,
    /// By source.
    pub sources: Vec<SourceSummary>,
    /// Every loss, with place, reason and quality.
    pub losses: Vec<Loss>,
    /// The books, line by line.
    pub ledger: Vec<Entries>,
    /// Why the run failed.
    pub failures: Vec<String>,
}

impl Summary {
    /// Whether the run did what it should.
    pub fn is_good(&self) -> bool {
        self.ledger_closed && self.failures.is_empty()
    }

    /// The summary for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let seconds = self.elapsed_seconds.max(1e-9);
        let rate = self.hits_recorded as f64 / seconds / 1e6;
        let _ = writeln!(
            text,
            "{} after {seconds:.2} s: {} hits recorded ({rate:.3} M/s)",
            self.state, self.hits_recorded
        );
        for source in &self.sources {
            let _ = writeln!(
                text,
                "  {:<12} {:>12} hits  {:>14} bytes  {}",
                source.name, source.hits, source.bytes, source.description
            );
        }
        match self.hits_sent {
            Some(sent) => {
                let _ =
                    writeln!(text, "sent {sent} = recorded {} + lost {}", self.hits_recorded, self.hits_lost);
            }
            None => {
                let _ = writeln!(text, "hits lost: {}", self.hits_lost);
            }
        }
        for loss in &self.losses {
            let quality = match loss.quality {
                thalweg_data::Quality::Exact => "",
                thalweg_data::Quality::AtLeast => "at least ",
                thalweg_data::Quality::Unknown => "an unknown number, at least ",
            };
            let _ = writeln!(
                text,
                "  lost {quality}{} {} of {} at {}: {} — {}",
                loss.count,
                loss.unit,
                loss.source,
                loss.stage,
                loss.reason,
                loss.reason.advice()
            );
        }
        if self.ledger_closed {
            let _ = writeln!(text, "the books close ({} snapshots on the way)", self.snapshots);
        } else {
            let _ = writeln!(text, "THE BOOKS DO NOT CLOSE:");
            self.discrepancies.iter().for_each(|line| {
                let _ = writeln!(text, "  {line}");
            });
        }
        for failure in &self.failures {
            let _ = writeln!(text, "failed: {failure}");
        }
        if let Some(directory) = &self.run_directory {
            let _ = writeln!(text, "recorded in {}", directory.display());
        }
        text
    }
}

/// Hits missing by the senders' totals although nothing was seen to be missing: a loss without a place.
pub(crate) fn unplaced_loss(books: &Books, hits_never_received: u64) -> Option<String> {
    use thalweg_data::{Stage, Unit};
    let placed = books.losses().iter().any(|loss| loss.unit != Unit::Hits && loss.stage != Stage::Sender);
    (hits_never_received > 0 && !placed).then(|| {
        format!("{hits_never_received} hits are missing by the senders' totals, and no gap was seen")
    })
}
