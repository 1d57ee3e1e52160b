//! The files at the far side: written, forced to the disk, read back, and only then called proved.
//!
//! ```text
//!  growing:  first range ─► .shipped/FILE.part ─ proved ─► renamed: a whole stream from its first moment
//!            later:  … ┊ marker ┊ range without its first 8 bytes ┊ marker ─ proved ─► the first 8 bytes take the marker's place
//!  whole:    .shipped/FILE.part ─ all ranges proved, all of it read back ─► renamed over the older one
//! ```
//! The digests of a whole file are those of its ranges as they were read back; where some came earlier, all of it is read once more.
//! What is proved is in a record beside ([`FarRecord`]) before it is reported to anybody. What comes and is not proved lies behind the marker,
//! or in the part, where no reader looks; after a crash it is cut off.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thalweg_data::checksum::Crc32c;
use thalweg_record::read::{MARKER, MARKER_BYTES, ReadAt, message_at, message_behind};

use crate::amount::RowCounts;
use crate::destination::Destination;
use crate::digests::{Digesting, Digests};
use crate::disk::{Disk, DiskFile, is_full};
use crate::error::{Refusal, ShipError};
use crate::far_record::{FarRecord, FinishedRecord};
use crate::file_turns::Turn;
use crate::message::{FileKind, Have, Offer, Proved, Range, Refused, decode, encode};
use crate::names::FarName;
use crate::run_locks::{RunGuard, RunLocks};

/// Where the records of a run's files lie, and their parts.
const HIDDEN: &str = ".shipped";
/// Longest record that is read.
const MOST_RECORD_BYTES: u64 = 64 << 10;
/// Bytes read back at a time.
const READ_BYTES: u64 = 1 << 20;

/// Files below one directory.
#[derive(Debug)]
pub struct FarFiles<D: Disk> {
    disk: D,
    root: PathBuf,
    address: String,
    locks: Arc<RunLocks>,
    /// Who ships; `None` where runs are not locked.
    shipper: Option<u64>,
    guard: Option<RunGuard>,
    current: Option<FarFile<D::File>>,
}

/// The file that is being shipped.
#[derive(Debug)]
struct FarFile<F> {
    turn: Turn,
    place: Place,
    offer: Offer,
    record: FarRecord,
    /// `None` when it is complete.
    file: Option<F>,
    is_part: bool,
    /// Where the next bytes go.
    written: u64,
    /// What is going to take the marker's place.
    prefix: [u8; MARKER_BYTES as usize],
    /// Digests of what is proved, as it was read back, if all of it was since the file was begun.
    read_back: Option<Digesting>,
}

#[derive(Clone, Debug)]
struct Place {
    directory: PathBuf,
    hidden: PathBuf,
    target: PathBuf,
    part: PathBuf,
    record: String,
}

impl Place {
    fn new(root: &Path, name: &FarName) -> Place {
        let directory = name.run_in(root);
        let hidden = directory.join(HIDDEN);
        let (target, part) = (directory.join(name.file()), hidden.join(format!("{}.part", name.file())));
        Place { directory, hidden, target, part, record: format!("{}.json", name.file()) }
    }
}

fn failed(path: &Path, action: &str) -> impl FnOnce(io::Error) -> Refused {
    move |cause| {
        let place = path.display();
        match is_full(&cause) {
            true => Refused::new(
                Refusal::DiskFull,
                format!("{place}: {action}: the far disk is full; free space there"),
            ),
            false => Refused::new(Refusal::Failed, format!("{place}: {action}: {cause}")),
        }
    }
}

impl<D: Disk> FarFiles<D> {
    /// Files below `root`, called `address` in messages. All connections to them have the same locks; with the number of a shipper, a
    /// run is shipped by one shipper at a time.
    pub fn new(
        disk: D,
        root: &Path,
        address: &str,
        locks: Arc<RunLocks>,
        shipper: Option<u64>,
    ) -> FarFiles<D> {
        let (root, address) = (root.to_owned(), address.to_owned());
        FarFiles { disk, root, address, locks, shipper, guard: None, current: None }
    }

    fn refused(&self, refused: &Refused) -> ShipError {
        let Refused { refusal, text } = refused.clone();
        ShipError::Refused { destination: self.address.clone(), refusal, text }
    }

    fn try_begin(&mut self, offer: &Offer) -> Result<Have, Refused> {
        let name = FarName::new(&offer.run, &offer.file).map_err(|text| Refused::new(Refusal::Name, text))?;
        let place = Place::new(&self.root, &name);
        self.disk.make_directory(&place.hidden).map_err(failed(&place.hidden, "making the directory"))?;
        self.lock(&name, &place)?;
        let turn = self.locks.turns.take(&name);
        let kept = turn.clone();
        let _held = kept.hold().ok_or_else(turn_is_over)?;
        // A record that a killed program has named is to outlive a power cut before it is reported to anybody.
        self.disk.sync_directory(&place.hidden).map_err(failed(&place.hidden, "forcing names"))?;
        let known = self.read_record(&place)?;
        let is_new = known.is_none();
        let mut record = known.unwrap_or_else(|| FarRecord::new(offer));
        let goes_on = record.go_on(offer)?;
        if is_new {
            self.refuse_foreign(&place)?;
        }
        if is_new || !goes_on {
            self.save(&place, &record)?;
        }
        if let Some(finished) = record.finished(offer) {
            let is_there = self.length_of(&place.target).is_some_and(|bytes| bytes == finished.digests.bytes);
            if is_there {
                let have = record.have(offer);
                let written = record.proved;
                let prefix = MARKER;
                let offer = offer.clone();
                self.current = Some(FarFile {
                    turn,
                    place,
                    offer,
                    record,
                    file: None,
                    is_part: false,
                    written,
                    prefix,
                    read_back: None,
                });
                return Ok(have);
            }
            return Err(gone(&place));
        }
        let (file, is_part) = self.open(&place, &mut record)?;
        let (have, written) = (record.have(offer), record.proved);
        let offer = offer.clone();
        let (file, prefix) = (Some(file), MARKER);
        let read_back = (written == 0).then(|| digesting_for(&offer));
        self.current =
            Some(FarFile { turn, place, offer, record, file, is_part, written, prefix, read_back });
        Ok(have)
    }

    fn lock(&mut self, name: &FarName, place: &Place) -> Result<(), Refused> {
        let Some(shipper) = self.shipper else { return Ok(()) };
        if self.guard.as_ref().is_none_or(|guard| guard.run() != name.run()) {
            self.guard = None;
            self.guard = Some(RunLocks::take(&self.locks, name.run(), &place.hidden, shipper)?);
        }
        Ok(())
    }

    fn length_of(&self, path: &Path) -> Option<u64> {
        self.disk.open(path).ok()?.length().ok()
    }

    fn read_record(&self, place: &Place) -> Result<Option<FarRecord>, Refused> {
        let path = place.hidden.join(&place.record);
        let text = self.disk.read_small(&path, MOST_RECORD_BYTES).map_err(failed(&path, "reading"))?;
        let Some(text) = text else { return Ok(None) };
        let damaged = || Refused::new(Refusal::Failed, format!("{}: not a record of a file", path.display()));
        decode(&text).map(Some).ok_or_else(damaged)
    }

    fn save(&self, place: &Place, record: &FarRecord) -> Result<(), Refused> {
        let path = place.hidden.join(&place.record);
        self.disk.replace(&place.hidden, &place.record, &encode(record)).map_err(failed(&path, "writing"))
    }

    /// A file that nobody has shipped is not overwritten.
    fn refuse_foreign(&self, place: &Place) -> Result<(), Refused> {
        match self.disk.open(&place.target) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(cause) => Err(failed(&place.target, "opening")(cause)),
            Ok(_) => {
                let text = format!(
                    "{}: a file is there that was not shipped; move it away, or ship into another folder",
                    place.target.display()
                );
                Err(Refused::new(Refusal::Differs, text))
            }
        }
    }

    /// The file that goes on, with nothing behind what is proved.
    fn open(&self, place: &Place, record: &mut FarRecord) -> Result<(D::File, bool), Refused> {
        if record.kind == FileKind::Growing && record.proved > 0 {
            let file = self.disk.open(&place.target).map_err(|_| gone(place))?;
            return match restore(&file, record.proved).map_err(failed(&place.target, "going on"))? {
                true => Ok((file, false)),
                false => Err(gone(place)),
            };
        }
        if record.proved > 0 {
            let part = self.disk.open(&place.part).ok();
            if let Some(part) = part.filter(|part| part.length().is_ok_and(|bytes| bytes >= record.proved)) {
                part.set_length(record.proved).map_err(failed(&place.part, "going on"))?;
                return Ok((part, true));
            }
            // It became the complete file, and the note on that was lost: it comes again.
            (record.proved, record.crc32c) = (0, 0);
            self.save(place, record)?;
        }
        // Its name is forced to the disk before a record names what is in it: otherwise an older part might have the name after a crash.
        let part = self.disk.create(&place.part);
        let part = part.and_then(|part| self.disk.sync_directory(&place.hidden).map(|()| part));
        Ok((part.map_err(failed(&place.part, "making the file"))?, true))
    }

    fn try_prove(&mut self, range: &Range) -> Result<Proved, Refused> {
        let current = self.current.as_mut().ok_or_else(nothing_begun)?;
        let file = current.file.as_ref().ok_or_else(nothing_begun)?;
        current.record.expects(current.written, range)?;
        let is_growing = current.record.kind == FileKind::Growing;
        let path = if current.is_part { &current.place.part } else { &current.place.target };
        let prefix = (is_growing && !current.is_part).then_some(current.prefix);
        let mut read_back = current.read_back.take();
        let checked = check(file, range, is_growing, prefix, &mut read_back);
        let counts = checked.map_err(failed(path, "writing and reading back"))??;
        let record = current.record.with(range, counts);
        let place = &current.place;
        let mut shown_part = None;
        if is_growing && current.is_part {
            // From here on readers may see it: should anything fail, nothing of it is cut.
            shown_part = current.file.take();
            show_part(&self.disk, place)?;
        } else if let Some(prefix) = prefix {
            let shown = || {
                file.write_at(&prefix, range.from)?;
                file.sync()?;
                file.forget(range.from, MARKER_BYTES);
                let mut found = MARKER;
                file.read_at(&mut found, range.from)?;
                Ok(found == prefix)
            };
            if !shown().map_err(failed(&place.target, "making batches visible"))? {
                return Err(unproved(range.from));
            }
        }
        let place = current.place.clone();
        self.save(&place, &record)?;
        let proved = Proved { to: record.proved, crc32c: record.crc32c, counted: record.counted };
        if let Some(current) = &mut self.current {
            current.is_part &= !is_growing;
            current.file = shown_part.or(current.file.take());
            current.record = record;
            current.read_back = read_back;
        }
        Ok(proved)
    }

    fn try_finish(&mut self, expected: &Digests) -> Result<Digests, Refused> {
        let current = self.current.as_mut().ok_or_else(nothing_begun)?;
        let mut digesting = current.read_back.take().unwrap_or_else(|| digesting_for(&current.offer));
        let FarFile { place, record, offer, is_part, .. } = current;
        let is_growing = record.kind == FileKind::Growing;
        let bytes = record.proved + if is_growing { MARKER_BYTES } else { 0 };
        let is_expected = current.written == record.proved && expected.bytes == bytes;
        let Some(file) = current.file.as_ref().filter(|_| is_expected && *is_part != is_growing) else {
            return Err(Refused::new(Refusal::Unexpected, "the end of a file that has not come"));
        };
        let path = if *is_part { &place.part } else { &place.target };
        let mut read = || {
            if digesting.bytes() < record.proved {
                // A part of it came over another connection, or before this program was started.
                digesting = digesting_for(offer);
            }
            file.sync()?;
            file.forget(digesting.bytes(), bytes - digesting.bytes());
            digesting.read_up_to(bytes, file)?;
            Ok((digesting.digests(), file.length()?))
        };
        let (mut digests, length) = read().map_err(failed(path, "reading back"))?;
        if let Some(known) = offer.digests.as_ref().filter(|known| digests.agrees_with(known)) {
            digests.clone_from(known);
        }
        if !digests.agrees_with(expected) || !digests.is_full() || length != bytes {
            if !is_growing {
                // Nothing of it counts: it comes again from its beginning.
                (record.proved, record.crc32c) = (0, 0);
                let (place, record) = (place.clone(), record.clone());
                self.save(&place, &record)?;
            }
            return Err(unproved(0));
        }
        if !is_growing {
            show_part(&self.disk, place)?;
        }
        record.finished = Some(FinishedRecord { identity: offer.identity, digests: digests.clone() });
        let (place, record) = (place.clone(), record.clone());
        self.save(&place, &record)?;
        Ok(digests)
    }

    /// What came and is not proved goes: space on a full disk.
    fn forget_current(&mut self) {
        let Some(FarFile { turn, record, file: Some(file), is_part, .. }) = self.current.take() else {
            return;
        };
        // Somebody else may have come further since.
        let Some(_held) = turn.hold() else { return };
        // What cannot be cut now is cut when the file is begun again.
        let _ = match is_part {
            true => file.set_length(record.proved),
            false if record.kind == FileKind::Growing => restore(&file, record.proved).map(drop),
            false => Ok(()),
        };
    }

    /// Does something with the current file, while no other connection does.
    fn in_turn<T>(
        &mut self,
        work: impl FnOnce(&mut FarFiles<D>) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let turn = self.current.as_ref().map(|current| current.turn.clone()).ok_or_else(nothing_begun)?;
        let _held = turn.hold().ok_or_else(turn_is_over)?;
        work(self)
    }

    fn settle<T>(&mut self, result: Result<T, Refused>) -> Result<T, ShipError> {
        result.map_err(|refused| {
            self.forget_current();
            self.refused(&refused)
        })
    }
}

/// What is read back is held against its CRC-32C. The others are computed where the shipper does not know them already.
fn digesting_for(offer: &Offer) -> Digesting {
    match &offer.digests {
        Some(known) if known.is_full() => Digesting::crc32c_only(),
        _ => Digesting::default(),
    }
}

/// Gives a part its name, where readers see it; the disk has the new name before this returns.
fn show_part(disk: &impl Disk, place: &Place) -> Result<(), Refused> {
    let shown = || {
        disk.sync_directory(&place.hidden)?;
        disk.rename(&place.part, &place.target)?;
        disk.sync_directory(&place.directory)?;
        disk.sync_directory(&place.hidden)
    };
    shown().map_err(failed(&place.target, "naming"))
}

/// Ends a growing file behind what is proved; whether it was that long. The marker comes before the cut: a reader sees a whole stream.
fn restore(file: &impl DiskFile, proved: u64) -> io::Result<bool> {
    let (length, end) = (file.length()?, proved + MARKER_BYTES);
    if length < end {
        return Ok(false);
    }
    let mut found = MARKER;
    file.read_at(&mut found, proved)?;
    if found != MARKER {
        file.write_at(&MARKER, proved)?;
    }
    if found != MARKER || length > end {
        // Also a marker that is there may be in the cache alone, by a program that was killed.
        file.sync()?;
    }
    if length > end {
        file.set_length(end)?;
        file.sync()?;
    }
    Ok(true)
}

fn gone(place: &Place) -> Refused {
    let text = format!(
        "{}: it was shipped, and is not there any more, or is shorter; put it back, or ship into another folder",
        place.target.display()
    );
    Refused::new(Refusal::Differs, text)
}

fn turn_is_over() -> Refused {
    Refused::new(Refusal::Unexpected, "another connection goes on with this file")
}

fn nothing_begun() -> Refused {
    Refused::new(Refusal::Unexpected, "bytes of a file that was not begun")
}

fn unproved(from: u64) -> Refused {
    let text = format!(
        "what was read back from byte {from} on is not what was sent; see the far disk and its host's memory"
    );
    Refused::new(Refusal::Unproved, text)
}

/// Forces a range to the disk, with the marker behind it, reads it back and holds it against what was sent. With `prefix` the first bytes
/// of the range are not in their place yet. What is read back goes into `read_back`; of a growing file, its batches and rows are counted.
fn check(
    file: &impl DiskFile,
    range: &Range,
    is_growing: bool,
    prefix: Option<[u8; MARKER_BYTES as usize]>,
    read_back: &mut Option<Digesting>,
) -> io::Result<Result<RowCounts, Refused>> {
    let Range { from, to, crc32c } = *range;
    let behind = if is_growing { MARKER_BYTES } else { 0 };
    if is_growing {
        file.write_at(&MARKER, to)?;
    }
    file.sync()?;
    file.forget(from, to + behind - from);
    let (mut found, mut at) = (Crc32c::new(), from);
    let mut take = |bytes: &[u8]| {
        found.add(bytes);
        if let Some(digesting) = read_back {
            digesting.update(bytes);
        }
    };
    if let Some(prefix) = &prefix {
        take(prefix);
        at += MARKER_BYTES;
    }
    let mut buffer = vec![0; READ_BYTES as usize];
    while at < to {
        let length = (to - at).min(READ_BYTES) as usize;
        file.read_at(&mut buffer[..length], at)?;
        take(&buffer[..length]);
        at += length as u64;
    }
    if found.value() != crc32c {
        return Ok(Err(unproved(from)));
    }
    let mut counts = RowCounts::default();
    if !is_growing {
        return Ok(Ok(counts));
    }
    let mut message = match prefix {
        Some(prefix) => message_behind(prefix, file, from),
        None => message_at(file, from),
    };
    let mut end = from;
    while let Ok(Some(found)) = message {
        counts.count(&found);
        end = found.end;
        if end >= to {
            break;
        }
        message = message_at(file, end);
    }
    let is_whole = end == to;
    let mut marker = [0; MARKER_BYTES as usize];
    file.read_at(&mut marker, to)?;
    Ok(match is_whole && marker == MARKER {
        true => Ok(counts),
        false => Err(Refused::new(Refusal::Unexpected, "a range that does not end with a whole message")),
    })
}

impl<D: Disk> Destination for FarFiles<D> {
    fn address(&self) -> &str {
        &self.address
    }

    fn begin(&mut self, offer: &Offer) -> Result<Have, ShipError> {
        self.forget_current();
        let begun = self.try_begin(offer);
        self.settle(begun)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), ShipError> {
        let written = self.in_turn(|files| {
            files.current.as_mut().ok_or_else(nothing_begun).and_then(|current| current.write(offset, bytes))
        });
        self.settle(written)
    }

    fn prove(&mut self, range: &Range) -> Result<Proved, ShipError> {
        let proved = self.in_turn(|files| files.try_prove(range));
        self.settle(proved)
    }

    fn finish(&mut self, expected: &Digests) -> Result<Digests, ShipError> {
        let finished = self.in_turn(|files| files.try_finish(expected));
        let finished = self.settle(finished);
        self.current = None;
        finished
    }
}

impl<F: DiskFile> FarFile<F> {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Refused> {
        self.record.takes(self.written, offset, bytes.len())?;
        let file = self.file.as_ref().ok_or_else(nothing_begun)?;
        let (mut at, mut rest) = (offset, bytes);
        let prefix_end = self.record.proved + MARKER_BYTES;
        if self.record.kind == FileKind::Growing && !self.is_part && at < prefix_end {
            // These stay here until the rest is proved.
            let (start, length) =
                ((at - self.record.proved) as usize, rest.len().min((prefix_end - at) as usize));
            self.prefix[start..start + length].copy_from_slice(&rest[..length]);
            (at, rest) = (at + length as u64, &rest[length..]);
        }
        let path = if self.is_part { &self.place.part } else { &self.place.target };
        if !rest.is_empty() {
            file.write_at(rest, at).map_err(failed(path, "writing"))?;
        }
        self.written = offset + bytes.len() as u64;
        Ok(())
    }
}
