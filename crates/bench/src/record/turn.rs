//! One turn of a recorder of hits, against writing the same bytes as they are.
//!
//! ```text
//!  hits in memory ───► a recorder ──► file     value
//!  bytes in memory ──► write ───────► file     baseline: as many bytes, the same sync policy
//! ```

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use thalweg_data::measure::Measurement;
use thalweg_record::begin_write_back;

use super::fresh;
use super::way::{Spent, Way};

/// Bytes per write of the baseline.
const WRITE_BYTES: usize = 1 << 20;
/// Writes of the baseline after which write-back begins: 8 MiB, as in a table's file.
const WRITE_BACK_TURNS: u64 = 8;

/// The data that a turn records.
pub(super) struct Turn {
    /// The name of the bench.
    pub bench: &'static str,
    /// Hits of a turn.
    pub hits: usize,
    /// Bytes of their rows.
    pub raw_bytes: usize,
}

impl Turn {
    /// Records as `way` says. `record` writes a turn below a directory and gives how long that took, and the bytes on file.
    pub fn measure(self, way: &Way, record: impl Fn(&Path) -> (Spent, u64)) -> Measurement {
        let directory = way.parent.join(format!("thalweg-bench-{}-{}", self.bench, std::process::id()));
        fs::create_dir_all(&directory).expect("the directory of a bench can be written");
        let mut file_bytes = 0;
        let compared = way.compare(
            || {
                let spent;
                (spent, file_bytes) = record(&directory);
                spent
            },
            || write_once(&directory, self.raw_bytes, way),
        );
        // A temporary directory that is not removed does no harm.
        let _ = fs::remove_dir_all(&directory);
        let baseline = "sequential write of the same bytes, uncompressed, with the same sync policy";
        let figure =
            Measurement::of_rate(self.bench, "hits/s", self.hits as f64, baseline, compared.comparison)
                .with("hits_per_turn", self.hits)
                .with("file_bytes", file_bytes);
        way.described(figure, &compared, self.raw_bytes as f64)
    }
}

/// Writes the bytes, in whole megabytes, to a file of their own.
fn write_once(directory: &Path, count: usize, way: &Way) -> Spent {
    let bytes = vec![0x5A; WRITE_BYTES];
    let run = fresh(directory, count);
    let mut file = File::create(run.join("bytes")).expect("a fresh directory takes files");
    let mut pacer = way.pace.begin();
    for turn in 0..(count / bytes.len()) as u64 {
        pacer.wait_for(bytes.len());
        file.write_all(&bytes).expect("the disk of a bench has room");
        if (turn + 1) % WRITE_BACK_TURNS == 0 {
            let length = WRITE_BACK_TURNS * bytes.len() as u64;
            begin_write_back(&file, (turn + 1) * bytes.len() as u64 - length, length);
        }
    }
    file.sync_data().expect("the disk of a bench works");
    let spent = pacer.spent();
    drop(file);
    let _ = fs::remove_dir_all(&run);
    spent
}
