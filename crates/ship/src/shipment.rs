//! One file on its way to one destination, a range at a time.
//!
//! ```text
//!  offer ─► have ─► digests of what is there already ─► range: read, sent, proved ─► … ─► whole file proved
//! ```
//! What is called proved is what the far side has answered to a range that was the same file's before and after it was read.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::amount::RowCounts;
use crate::destination::{Destination, RANGE_BYTES};
use crate::digests::{Digesting, Digests};
use crate::error::{Refusal, ShipError};
use crate::frame::CHUNK_BYTES;
use crate::known_digests::KnownDigests;
use crate::local_file::LocalFile;
use crate::message::{FileKind, Offer, Proved, Range};

use thalweg_data::checksum::Crc32c;
use thalweg_record::read::MARKER;

/// Ranges that are sent before the proof of the oldest is waited for: the far side proves one while the next comes.
const RANGES_UNDER_WAY: usize = 2;

/// What one step has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// More is proved: everything up to here.
    Proved(u64),
    /// Everything that is there is proved, and the file may still grow.
    CaughtUp,
    /// The whole file is proved.
    Finished(Digests),
}

/// What is asked before bytes go, and may wait: a limit of bandwidth. An error ends the step.
pub type Gate<'g> = &'g mut dyn FnMut(usize) -> Result<(), ShipError>;

/// What was read of a file, from its beginning on.
#[derive(Clone, Debug, Default)]
struct Read {
    digesting: Digesting,
    counts: RowCounts,
}

impl Read {
    /// Nothing yet; with all digests, where nobody else computes them.
    fn new(is_full: bool) -> Read {
        let digesting = if is_full { Digesting::default() } else { Digesting::crc32c_only() };
        Read { digesting, counts: RowCounts::default() }
    }
}

/// A file that is being shipped.
#[derive(Debug)]
pub struct Shipment {
    local: LocalFile,
    run: String,
    file: String,
    /// Where others are wanted than the destination has.
    range_bytes: Option<u64>,
    is_begun: bool,
    /// Of what is proved.
    proved: Read,
    /// Of what was sent behind that, at the end of each range whose proof has not come.
    unproved: VecDeque<Read>,
    /// Of the whole file, for destinations that want to know them first.
    whole: Option<Digests>,
    /// What others in this process have computed.
    known: Arc<KnownDigests>,
    /// Batches and rows of it, if it is a table.
    whole_counts: Option<RowCounts>,
    finished: Option<Digests>,
}

impl Shipment {
    /// A file that is to be called `run`/`file` at the far side.
    pub fn new(local: LocalFile, run: &str, file: &str) -> Shipment {
        Shipment {
            local,
            run: run.to_owned(),
            file: file.to_owned(),
            range_bytes: None,
            is_begun: false,
            proved: Read::default(),
            unproved: VecDeque::new(),
            whole: None,
            known: Arc::default(),
            whole_counts: None,
            finished: None,
        }
    }

    /// The same with digests that others compute, too.
    #[must_use]
    pub(crate) fn with_known(self, known: Arc<KnownDigests>) -> Shipment {
        Shipment { known, ..self }
    }

    /// The same with other distances between proofs.
    #[must_use]
    pub fn with_range_bytes(self, range_bytes: u64) -> Shipment {
        Shipment { range_bytes: Some(range_bytes), ..self }
    }

    /// Batches and rows of what is proved; of a table that is shipped as a whole, of all of it. `None` of a file without rows.
    pub fn counted(&self) -> Option<RowCounts> {
        match self.local.kind() {
            FileKind::Growing => Some(self.proved.counts),
            FileKind::Whole => self.whole_counts,
        }
    }

    /// The file here.
    pub fn local(&self) -> &LocalFile {
        &self.local
    }

    /// The connection is another one: the file is to be offered again.
    pub fn interrupt(&mut self) {
        self.is_begun = false;
        self.unproved.clear();
    }

    /// Ships the next range. `is_closed` says that nobody writes the file any more, and `recorded` is its CRC-32C as it was computed while
    /// it was written, where that is known.
    ///
    /// # Errors
    /// When it cannot go on; what is proved stays so.
    pub fn step(
        &mut self,
        destination: &mut dyn Destination,
        is_closed: bool,
        recorded: Option<&str>,
        gate: Gate<'_>,
    ) -> Result<Step, ShipError> {
        let step = self.try_step(destination, is_closed, recorded, gate);
        if step.is_err() {
            self.interrupt();
        }
        step
    }

    fn try_step(
        &mut self,
        destination: &mut dyn Destination,
        is_closed: bool,
        recorded: Option<&str>,
        gate: Gate<'_>,
    ) -> Result<Step, ShipError> {
        if !self.is_begun {
            self.begin(destination, recorded, gate)?;
        }
        if self.unproved.len() >= RANGES_UNDER_WAY {
            return self.await_proof(destination);
        }
        let wanted = self.range_bytes.unwrap_or_else(|| destination.range_bytes(self.local.identity().bytes));
        let from = self.sent().digesting.bytes();
        if let Some((to, counts)) = self.local.range_end(from, wanted)? {
            self.send_range(destination, (from, to), counts, gate)?;
            return match self.unproved.len() {
                // The first range of several: the next one is sent before its proof is waited for.
                1 if self.local.range_end(to, wanted)?.is_some() => {
                    self.try_step(destination, is_closed, recorded, gate)
                }
                0 => Ok(Step::Proved(to)),
                _ => self.await_proof(destination),
            };
        }
        if !self.unproved.is_empty() {
            return self.await_proof(destination);
        }
        if self.local.kind() == FileKind::Growing && !is_closed {
            return Ok(Step::CaughtUp);
        }
        self.local.check_end(from)?;
        self.finish(destination, recorded)
    }

    fn begin(
        &mut self,
        destination: &mut dyn Destination,
        recorded: Option<&str>,
        gate: Gate<'_>,
    ) -> Result<(), ShipError> {
        let (run, file) = (self.run.clone(), self.file.clone());
        self.whole = match destination.takes_growing() {
            true => self.known.get(self.local.path(), &self.local.identity()),
            false => Some(self.whole_digests(recorded, gate)?),
        };
        let digests = self.whole.clone();
        let (kind, identity) = (self.local.kind(), self.local.identity());
        let have = destination.begin(&Offer { run, file, kind, identity, digests })?;
        if have.proved > self.local.bytes()? {
            return Err(self.differs(destination, "the copy there is longer than the file here"));
        }
        let is_left_to_others = self.whole.is_some() || have.makes_digests;
        if self.proved.digesting.bytes() > have.proved
            || self.proved.digesting.bytes() == 0
            || !is_left_to_others && !self.proved.digesting.is_full()
        {
            self.proved = Read::new(!is_left_to_others);
        }
        let known = self.proved.digesting.bytes();
        read_up_to(&mut self.proved.digesting, have.proved, &self.local, gate)?;
        if self.local.kind() == FileKind::Growing {
            self.proved.counts += self.local.counts(known, have.proved)?;
        }
        if self.proved.digesting.crc32c() != have.crc32c {
            self.proved = Read::new(!is_left_to_others);
            return Err(self.differs(destination, "the copy there is not the beginning of the file here"));
        }
        (self.is_begun, self.finished) = (true, have.finished);
        Ok(())
    }

    /// The digests of a file that nobody writes any more.
    fn whole_digests(&mut self, recorded: Option<&str>, gate: Gate<'_>) -> Result<Digests, ShipError> {
        let (identity, local) = (self.local.identity(), &self.local);
        let compute = || {
            let mut digesting = Digesting::default();
            read_up_to(&mut digesting, identity.bytes, local, gate)?;
            local.check(identity.bytes)?;
            Ok(digesting.digests())
        };
        let digests = self.known.get_or_compute(local.path(), &identity, compute)?;
        self.whole_counts = self.local.table_counts();
        self.check_recorded(recorded, &digests)?;
        Ok(digests)
    }

    fn check_recorded(&self, recorded: Option<&str>, found: &Digests) -> Result<(), ShipError> {
        match recorded.filter(|recorded| *recorded != found.crc32c) {
            Some(recorded) => {
                let (path, recorded) = (self.local.path().to_owned(), recorded.to_owned());
                Err(ShipError::Digest { path, recorded, found: found.crc32c.clone() })
            }
            None => Ok(()),
        }
    }

    fn differs(&self, destination: &dyn Destination, what: &str) -> ShipError {
        let text = format!(
            "{}: {what}; move that copy away, or ship into another folder",
            self.local.path().display()
        );
        ShipError::Refused { destination: destination.address().to_owned(), refusal: Refusal::Differs, text }
    }

    /// Of everything that was sent.
    fn sent(&self) -> &Read {
        self.unproved.back().unwrap_or(&self.proved)
    }

    fn send_range(
        &mut self,
        destination: &mut dyn Destination,
        (from, to): (u64, u64),
        counts: RowCounts,
        gate: Gate<'_>,
    ) -> Result<(), ShipError> {
        if self.finished.is_some() {
            return Err(self.differs(destination, "the copy there is complete, and the file here is longer"));
        }
        let (mut read, mut crc32c) = (self.sent().clone(), Crc32c::new());
        read.counts += counts;
        let mut buffer = vec![0; CHUNK_BYTES.min((to - from) as usize)];
        let mut at = from;
        while at < to {
            let chunk = &mut buffer[..CHUNK_BYTES.min((to - at) as usize)];
            gate(chunk.len())?;
            self.local.read(chunk, at)?;
            read.digesting.update(chunk);
            crc32c.add(chunk);
            destination.write(at, chunk)?;
            at += chunk.len() as u64;
        }
        self.local.check(to)?;
        self.unproved.push_back(read);
        match destination.ask_proof(&Range { from, to, crc32c: crc32c.value() })? {
            Some(proved) => self.accept(destination, proved).map(drop),
            None => Ok(()),
        }
    }

    fn await_proof(&mut self, destination: &mut dyn Destination) -> Result<Step, ShipError> {
        let proved = destination.await_proof()?;
        self.accept(destination, proved)
    }

    /// Takes the proof of the oldest range.
    fn accept(&mut self, destination: &dyn Destination, proved: Proved) -> Result<Step, ShipError> {
        let expected = self.unproved.pop_front().unwrap_or_default();
        let (from, to) = (self.proved.digesting.bytes(), expected.digesting.bytes());
        if (proved.to, proved.crc32c) != (to, expected.digesting.crc32c()) {
            return Err(self.differs(destination, "the copy there has another checksum"));
        }
        // An older version has not counted.
        if proved.counted.is_some_and(|counted| counted != expected.counts) {
            return Err(self.differs(destination, "the copy there has other batches"));
        }
        self.proved = expected;
        self.local.forget(from, to - from);
        Ok(Step::Proved(to))
    }

    fn finish(
        &mut self,
        destination: &mut dyn Destination,
        recorded: Option<&str>,
    ) -> Result<Step, ShipError> {
        let mut digesting = self.proved.digesting.clone();
        if self.local.kind() == FileKind::Growing {
            digesting.update(&MARKER);
        }
        let mut digests = digesting.digests();
        if let Some(known) = self.whole.as_ref().filter(|known| digests.agrees_with(known)) {
            digests.clone_from(known);
        }
        self.check_recorded(recorded, &digests)?;
        self.local.check(digests.bytes)?;
        let found = match self.finished.take() {
            Some(found) => found,
            None => destination.finish(&digests)?,
        };
        self.is_begun = false;
        match found.agrees_with(&digests) && found.is_full() {
            true => {
                self.known.note(self.local.path(), &self.local.identity(), &found);
                Ok(Step::Finished(found))
            }
            false => Err(self.differs(destination, "the copy there has other digests")),
        }
    }
}

/// Reads a file up to `end`, in steps, so that the program can be ended meanwhile.
fn read_up_to(
    digesting: &mut Digesting,
    end: u64,
    local: &LocalFile,
    gate: Gate<'_>,
) -> Result<(), ShipError> {
    while digesting.bytes() < end {
        gate(0)?;
        let next = end.min(digesting.bytes() + RANGE_BYTES);
        let read = digesting.read_up_to(next, local.file());
        read.map_err(ShipError::local(local.path(), "reading"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::disk::HostDisk;
    use crate::far_files::FarFiles;
    use crate::message::Have;

    /// A far side that notes what it was asked to finish; an older one says nothing of digests.
    struct Far {
        files: FarFiles<HostDisk>,
        is_old: bool,
        offered: Option<Digests>,
        expected: Option<Digests>,
    }

    impl Destination for Far {
        fn address(&self) -> &str {
            self.files.address()
        }

        fn begin(&mut self, offer: &Offer) -> Result<Have, ShipError> {
            self.offered.clone_from(&offer.digests);
            let have = self.files.begin(offer)?;
            Ok(Have { makes_digests: !self.is_old, ..have })
        }

        fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), ShipError> {
            self.files.write(offset, bytes)
        }

        fn prove(&mut self, range: &Range) -> Result<Proved, ShipError> {
            self.files.prove(range)
        }

        fn finish(&mut self, expected: &Digests) -> Result<Digests, ShipError> {
            self.expected = Some(expected.clone());
            self.files.finish(expected)
        }
    }

    #[test]
    fn adler32_and_md5_are_computed_at_one_side_and_once() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("spectra.json");
        std::fs::write(&path, vec![7; 3000]).expect("written");
        let known = Arc::new(KnownDigests::default());
        let ship = |root: &Path, is_old| {
            let files = FarFiles::new(HostDisk, root, "far", Arc::default(), None);
            let mut far = Far { files, is_old, offered: None, expected: None };
            let local = LocalFile::open(&path, FileKind::Whole).expect("there");
            let shipment = Shipment::new(local, "000001", "spectra.json").with_range_bytes(1000);
            let mut shipment = shipment.with_known(known.clone());
            loop {
                match shipment.step(&mut far, true, None, &mut |_| Ok(())).expect("shipped") {
                    Step::Finished(digests) => return (far, digests),
                    step => assert!(matches!(step, Step::Proved(_)), "{step:?}"),
                }
            }
        };
        let mut whole = Digesting::default();
        whole.update(&[7; 3000]);
        let [one, two, three] = ["one", "two", "three"].map(|name| folder.path().join(name));
        // The far side computes them.
        let (far, found) = ship(&one, false);
        assert!(far.offered.is_none() && !far.expected.expect("finished").is_full());
        assert_eq!(found, whole.digests());
        // Another one gets them; one of an older version gets what is computed here.
        let (far, found) = ship(&two, false);
        assert_eq!((far.offered, found), (Some(whole.digests()), whole.digests()));
        known.forget(&path);
        let (far, found) = ship(&three, true);
        assert_eq!((far.offered, far.expected, found), (None, Some(whole.digests()), whole.digests()));
    }
}
