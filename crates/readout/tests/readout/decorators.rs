//! Sources around sources: what the one inside reports comes out, and a stream ends where its connection ends.

use std::time::Duration;

use tempfile::TempDir;
use thalweg_data::{Counters, Frames, LossReason, Mark, Pool, Received, Source, SourceError, Unit};
use thalweg_readout::file::FileSource;
use thalweg_readout::{FaultSettings, Faulty, RunClock};

/// Bytes of a stream, each chunk a file, with the number of the connection on which it comes and whether there are any.
struct Reconnecting {
    chunks: std::vec::IntoIter<(u32, bool)>,
    connections: u32,
    waiting: u64,
    files: FileSource,
    _folder: TempDir,
    counters: Counters,
}

impl Reconnecting {
    fn new(chunks: &[(u32, &[u8])]) -> Box<Reconnecting> {
        let folder = tempfile::tempdir().expect("temporary folder");
        let paths: Vec<_> = (0..chunks.len()).map(|index| folder.path().join(index.to_string())).collect();
        for (path, (_, bytes)) in paths.iter().zip(chunks) {
            std::fs::write(path, bytes).expect("a writable folder");
        }
        let pool = Pool::new(4, 64 << 10).expect("small");
        let comes = chunks.iter().map(|(connection, bytes)| (*connection, !bytes.is_empty()));
        Box::new(Reconnecting {
            chunks: comes.collect::<Vec<_>>().into_iter(),
            connections: 0,
            waiting: 100,
            files: FileSource::open(&paths, pool, RunClock::start()).expect("all files are there"),
            _folder: folder,
            counters: Counters::default(),
        })
    }
}

impl Source for Reconnecting {
    fn receive(&mut self, frames: &mut Frames, _: Duration) -> Result<Received, SourceError> {
        let Some((connection, has_bytes)) = self.chunks.next() else { return Ok(Received::Idle) };
        if std::mem::replace(&mut self.connections, connection) != connection {
            self.files.carry(0);
        }
        let received =
            if has_bytes { self.files.receive(frames, Duration::ZERO) } else { Ok(Received::Idle) };
        frames.header.mark = Mark(1);
        self.counters.clone_from(self.files.counters());
        received
    }

    fn carry(&mut self, bytes: usize) {
        self.files.carry(bytes);
    }

    fn give_carried(&mut self, frames: &mut Frames) {
        self.files.give_carried(frames);
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn waiting_bytes(&self) -> u64 {
        self.waiting
    }

    fn abandon(&mut self) -> Result<(), SourceError> {
        self.counters.input(Unit::Bytes, self.waiting);
        self.counters.lost(LossReason::Abandoned, Unit::Bytes, std::mem::take(&mut self.waiting));
        Ok(())
    }

    fn drop_counters(&self) -> Vec<(&'static str, u64)> {
        vec![("inside", 7)]
    }

    fn unreadable(&self) -> Option<String> {
        Some("damaged at byte 9".to_owned())
    }

    fn connections(&self) -> u32 {
        self.connections
    }

    fn description(&self) -> String {
        "inside".to_owned()
    }

    fn is_stream(&self) -> bool {
        true
    }
}

fn received(source: &mut dyn Source) -> Vec<Vec<u8>> {
    let mut frames = Frames::default();
    source.receive(&mut frames, Duration::ZERO).expect("no error");
    frames.slices.iter().map(|slice| frames.bytes(*slice).to_vec()).collect()
}

#[test]
fn a_source_in_front_of_another_reports_everything_that_the_other_reports() {
    let faulty = Faulty::new(Reconnecting::new(&[(3, b"abc")]), FaultSettings::default()).expect("possible");
    let mut source: Box<dyn Source> = Box::new(faulty);
    assert_eq!(received(&mut *source), [b"abc"]);
    source.carry(2);
    let mut carried = Frames::default();
    source.give_carried(&mut carried);
    assert_eq!(carried.bytes(carried.slices[0]), b"bc");
    assert_eq!(source.connections(), 3);
    assert!(source.drop_counters().contains(&("inside", 7)) && source.description().starts_with("inside"));
    assert_eq!(source.unreadable().as_deref(), Some("damaged at byte 9"));
    assert_eq!((source.is_stream(), source.waiting_bytes()), (true, 100));
    source.abandon().expect("no error");
    let lost = source.counters().total_lost(LossReason::Abandoned, Unit::Bytes);
    assert_eq!((lost, source.waiting_bytes()), (100, 0));
}

#[test]
fn a_new_connection_behind_faults_begins_a_new_stream() {
    // The second connection is seen with its first bytes, the third before there are any.
    let chunks: [(u32, &[u8]); 5] = [(0, b"first"), (0, b"more"), (1, b"second"), (2, b""), (2, b"third")];
    let mut faulty = Faulty::new(Reconnecting::new(&chunks), FaultSettings::default()).expect("possible");
    assert_eq!(received(&mut faulty), [b"first"]);
    faulty.carry(2);
    assert_eq!(received(&mut faulty), [b"stmore"], "one connection is one stream");
    faulty.carry(3);
    assert_eq!((received(&mut faulty), faulty.connections()), (vec![b"second".to_vec()], 1));
    faulty.carry(4);
    assert_eq!((received(&mut faulty), faulty.connections()), (vec![], 2));
    assert_eq!(received(&mut faulty), [b"third"]);
}
