//! Counts the rows lost when another program removes or truncates a file that is being written.
//!
//! ```text
//!  group after group ──► WrittenLog: whose rows lie up to where ──► file cut at byte N ──► amounts that are gone
//! ```

use crate::amounts::Amounts;
use crate::ipc::file::{FileLoss, TableFile};
use crate::table::Table;

/// Most entries; beyond, two neighbours become one, and what is gone is reported in larger steps.
const MOST_ENTRIES: usize = 256;

/// Whose rows lie where, in the file that counts.
#[derive(Debug, Default)]
pub(crate) struct WrittenLog {
    /// Where the file ended behind a row group, and what the group held.
    entries: Vec<(u64, Amounts)>,
    /// Row groups that make an entry.
    step: u64,
    /// Row groups in the last entry.
    in_last: u64,
}

impl WrittenLog {
    /// Enters a row group that was just written.
    pub fn add(&mut self, files: &[TableFile], amounts: &Amounts) {
        let Some(file) = files.iter().find(|file| counts(file.table())) else { return };
        self.step = self.step.max(1);
        match self.entries.last_mut() {
            Some((end, sum)) if self.in_last < self.step => {
                *end = file.end();
                sum.add_all(amounts);
                self.in_last += 1;
            }
            _ => {
                self.entries.push((file.end(), amounts.clone()));
                self.in_last = 1;
            }
        }
        if self.entries.len() > MOST_ENTRIES {
            self.thin_out();
        }
    }

    fn thin_out(&mut self) {
        let entries = std::mem::take(&mut self.entries);
        for (index, (end, amounts)) in entries.into_iter().enumerate() {
            match self.entries.last_mut() {
                Some((last_end, sum)) if index % 2 == 1 => {
                    *last_end = end;
                    sum.add_all(&amounts);
                }
                _ => self.entries.push((end, amounts)),
            }
        }
        self.step *= 2;
        // The last one has no neighbour to share an entry with.
        self.in_last = self.step / 2;
    }

    /// What is gone with a file. Of tables that belong to others the rows are not counted: nothing is.
    pub fn gone(&self, file: &TableFile, loss: FileLoss) -> Amounts {
        let mut gone = Amounts::default();
        if counts(file.table()) {
            let kept = match loss {
                FileLoss::Truncated(length) => length,
                FileLoss::Removed | FileLoss::Moved => 0,
            };
            // Row groups without rows in this file lie where the one before them does.
            self.entries.iter().filter(|(end, _)| *end > kept).for_each(|(_, amounts)| gone.add_all(amounts));
        }
        gone
    }
}

/// Whether what a source has given is counted by the rows of this table.
fn counts(table: Table) -> bool {
    match table {
        Table::Hits | Table::Raw | Table::Events | Table::Fragments | Table::Coincidences => true,
        Table::Extras
        | Table::Waveforms
        | Table::Statistics
        | Table::Losses
        | Table::Ranges
        | Table::Series => false,
    }
}

impl FileLoss {
    /// What happened, and what to do.
    pub(crate) fn message(self, file: &TableFile) -> String {
        let rows = file.rows();
        let what = match self {
            FileLoss::Removed => {
                format!(
                    "another program has removed this file while it was written, and its {rows} rows with it"
                )
            }
            FileLoss::Moved => format!(
                "another program has moved or replaced this file while it was written; its {rows} rows are not in the run any more"
            ),
            FileLoss::Truncated(length) => format!(
                "another program has truncated this file to {length} bytes while it was written, of {} bytes with {rows} rows; `thalweg \
                 recover` keeps what is left",
                file.end()
            ),
        };
        format!("{what}; leave the files of a run alone until it has ended")
    }
}
