//! A bucket as a destination: a file goes there part by part, and is a copy when the object was read back as a whole.
//!
//! ```text
//!  begin: what is known here, what the store lists ─► parts that count
//!  write … prove ─► part: ETag = MD5? ─► Upload on our disk          finish ─► complete ─► read back: CRC-32C, MD5?
//! ```
//! A store has no partial files and does not report what is in a part. So the parts that count are those that our disk remembers and the store
//! lists with the same ETag; what only one of the two knows is uploaded again, or ended when the upload is ours.

mod client;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use md5::{Digest, Md5};
use object_store::path::Path as Key;
use thalweg_data::checksum::{combined, of};

use crate::destination::{Destination, RANGE_BYTES};
use crate::digests::Digests;
use crate::error::{Refusal, ShipError};
use crate::message::{Have, Offer, Proved, Range};
use crate::settings::Settings;
use crate::upload::{Part, Upload, is_table};

use client::{Client, Listed};

/// Most parts of an object.
const MOST_PARTS: u64 = 10_000;

/// A bucket.
#[derive(Debug)]
pub struct Bucket {
    client: Client,
    address: String,
    /// The directory here of the run that is shipped.
    run: PathBuf,
    current: Option<Current>,
}

/// The file that is shipped.
#[derive(Debug)]
struct Current {
    key: Key,
    state: PathBuf,
    upload: Upload,
    digests: Digests,
    /// Parts that the store has of it.
    listed: BTreeMap<usize, Listed>,
    /// The whole object is there, and is to be read back.
    is_there: bool,
    /// What came since the last proof.
    bytes: Vec<u8>,
}

impl Bucket {
    /// A bucket; nothing is connected yet. `address` is for messages and for the state that is kept of it.
    ///
    /// # Errors
    /// When settings and environment do not say how it is reached.
    pub fn open(
        bucket: &str,
        address: &str,
        settings: &Settings,
        stop: &Arc<AtomicBool>,
    ) -> Result<Bucket, ShipError> {
        let all = std::env::vars_os()
            .filter_map(|(key, value)| Some((key.to_str()?.to_owned(), value.to_str()?.to_owned())));
        let environment: BTreeMap<String, String> = all.filter(|(key, _)| key.starts_with("AWS_")).collect();
        Bucket::open_with(bucket, address, settings, &environment, stop)
    }

    /// The same with another environment than that of this program: `AWS_ACCESS_KEY_ID` and its like.
    ///
    /// # Errors
    /// As above.
    pub fn open_with(
        bucket: &str,
        address: &str,
        settings: &Settings,
        environment: &BTreeMap<String, String>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Bucket, ShipError> {
        let client = Client::open((bucket, address), settings, environment, stop)?;
        Ok(Bucket { client, address: address.to_owned(), run: PathBuf::new(), current: None })
    }

    fn refused(&self, refusal: Refusal, text: String) -> ShipError {
        ShipError::Refused { destination: self.address.clone(), refusal, text }
    }

    fn current(&mut self) -> Result<Current, ShipError> {
        let text = "no file was begun".to_owned();
        self.current.take().ok_or_else(|| self.refused(Refusal::Unexpected, text))
    }

    /// Ends an upload that the state does not go on with.
    fn end_upload(&self, key: &Key, upload: &mut Upload) -> Result<(), ShipError> {
        if let Some(before) = &upload.before {
            // One was to be begun, and its id has never come: it is among those that were not there before.
            for id in self.client.uploads(key)?.iter().filter(|id| !before.contains(id)) {
                self.client.abort(key, id)?;
            }
        }
        if let Some(id) = &upload.id {
            self.client.abort(key, id)?;
        }
        (upload.before, upload.id) = (None, None);
        upload.parts.clear();
        Ok(())
    }

    /// Whether the object is there already.
    fn is_there(&self, key: &Key, file: &str, digests: &Digests) -> Result<bool, ShipError> {
        let Some(found) = self.client.head(key)? else { return Ok(false) };
        if found.bytes == digests.bytes && found.crc32c.as_ref() == Some(&digests.crc32c) {
            return Ok(true);
        }
        // A document is replaced by a newer one; a file of a table never changes once it is closed.
        if !is_table(file) {
            return Ok(false);
        }
        let other =
            found.crc32c.map_or("without a CRC-32C".to_owned(), |crc32c| format!("with CRC-32C {crc32c}"));
        let text = format!(
            "{key}: another object of {} B is there, {other}, and the file here has {} B, {}; move that object away, or ship to another \
             prefix",
            found.bytes, digests.bytes, digests.crc32c
        );
        Err(self.refused(Refusal::Differs, text))
    }

    /// Keeps of the state what the store has as well.
    fn compare(&self, key: &Key, upload: &mut Upload) -> Result<BTreeMap<usize, Listed>, ShipError> {
        let Some(id) = &upload.id else { return Ok(BTreeMap::new()) };
        let Some(listed) = self.client.parts(key, id)? else {
            // Ended by a rule of the store, or by somebody.
            upload.id = None;
            upload.parts.clear();
            return Ok(BTreeMap::new());
        };
        let is_same = |(index, part): (usize, &Part)| {
            let listed = listed.get(&index);
            listed
                .is_some_and(|listed| listed.bytes == part.bytes && plain(&listed.etag) == plain(&part.etag))
        };
        let same =
            upload.parts.iter().enumerate().take_while(|(index, part)| is_same((*index, part))).count();
        upload.parts.truncate(same);
        Ok(listed)
    }

    fn start(&self, current: &mut Current) -> Result<String, ShipError> {
        if let Some(id) = &current.upload.id {
            return Ok(id.clone());
        }
        current.upload.before = Some(self.client.uploads(&current.key)?);
        current.upload.save(&current.state)?;
        let id = self.client.create(&current.key, &current.digests)?;
        (current.upload.before, current.upload.id) = (None, Some(id.clone()));
        current.upload.save(&current.state)?;
        Ok(id)
    }

    /// Whether what the store calls a part or an object is the MD5 of what was sent, where that is what it calls them by.
    fn check_etag(&self, key: &Key, etag: Option<&str>, bytes_md5: &str) -> Result<(), ShipError> {
        let Some(etag) = etag.map(plain) else { return Ok(()) };
        let is_md5 = etag.len() == 32 && etag.bytes().all(|byte| byte.is_ascii_hexdigit());
        if self.client.is_encrypted() || !is_md5 || etag.eq_ignore_ascii_case(bytes_md5) {
            return Ok(());
        }
        let text = format!(
            "{key}: the store has stored bytes with MD5 {etag} (its ETag), and was sent bytes with MD5 {bytes_md5}; \
             look for a faulty disk, memory or proxy there"
        );
        Err(self.refused(Refusal::Unproved, text))
    }

    fn upload(&self, current: &mut Current, range: &Range) -> Result<(), ShipError> {
        let bytes = std::mem::take(&mut current.bytes);
        if bytes.len() as u64 != range.to - range.from || of(&bytes) != range.crc32c {
            let text = format!("{}: other bytes came than are to be proved", current.key);
            return Err(self.refused(Refusal::Unproved, text));
        }
        let is_whole = (range.from, range.to) == (0, current.digests.bytes);
        let bytes_md5 = if is_whole { current.digests.md5.clone() } else { md5_of(&bytes) };
        if is_whole {
            let etag = self.client.put(&current.key, bytes, &current.digests)?;
            self.check_etag(&current.key, etag.as_deref(), &bytes_md5)?;
            current.is_there = true;
            return Ok(());
        }
        let id = self.start(current)?;
        let (index, length) = (current.upload.parts.len(), bytes.len() as u64);
        let total = combined(current.upload.crc32c(), range.crc32c, length);
        let known = current.listed.remove(&index);
        let known = known.filter(|part| part.bytes == length && plain(&part.etag) == bytes_md5);
        let etag = match known {
            // It came, and only the answer was lost.
            Some(part) => part.etag,
            None => self.client.part(&current.key, &id, index, bytes)?,
        };
        self.check_etag(&current.key, Some(&etag), &bytes_md5)?;
        current.upload.parts.push(Part { bytes: length, crc32c: total, etag });
        current.upload.save(&current.state)
    }

    /// Reads the object back.
    fn read_back(&self, current: &mut Current, expected: &Digests) -> Result<Digests, ShipError> {
        let found = self.client.read(&current.key)?;
        if found.as_ref().is_some_and(|found| found.agrees_with(expected)) {
            Upload::remove(&current.state)?;
            return Ok(expected.clone());
        }
        // It is uploaded again then, and not taken for the copy that its metadata says it is.
        current.upload = Upload {
            key: current.upload.key.clone(),
            digests: expected.clone(),
            is_unproved: true,
            ..Upload::default()
        };
        current.upload.save(&current.state)?;
        let key = &current.key;
        let text = match found {
            None => format!("{key}: the store has acknowledged the object, and does not have it"),
            Some(found) => format!(
                "{key}: {} B with CRC-32C {} were read back, and {} B with {} were sent",
                found.bytes, found.crc32c, expected.bytes, expected.crc32c
            ),
        };
        Err(self.refused(
            Refusal::Unproved,
            format!("{text}; look for a fault of the store, and ship it again (--follow does so by itself)"),
        ))
    }
}

impl Destination for Bucket {
    fn address(&self) -> &str {
        &self.address
    }

    fn takes_growing(&self) -> bool {
        false
    }

    fn range_bytes(&self, file_bytes: u64) -> u64 {
        RANGE_BYTES.max(file_bytes.div_ceil(MOST_PARTS).next_multiple_of(1 << 20))
    }

    fn at_run(&mut self, run: &Path) {
        run.clone_into(&mut self.run);
    }

    fn begin(&mut self, offer: &Offer) -> Result<Have, ShipError> {
        self.current = None;
        let text = "a file came without its digests".to_owned();
        let digests = offer.digests.clone().ok_or_else(|| self.refused(Refusal::Unexpected, text))?;
        let key = self.client.path(&format!("{}/{}", offer.run, offer.file))?;
        let state = Upload::path(&self.run, &self.address, &offer.file);
        let known = Upload::load(&state, key.as_ref())?;
        let mut upload = known.clone();
        if upload.digests != digests {
            self.end_upload(&key, &mut upload)?;
            (upload.digests, upload.is_unproved) = (digests.clone(), false);
        } else if upload.before.is_some() {
            self.end_upload(&key, &mut upload)?;
        }
        let is_there = !upload.is_unproved && self.is_there(&key, &offer.file, &digests)?;
        if is_there {
            self.end_upload(&key, &mut upload)?;
        }
        let listed = self.compare(&key, &mut upload)?;
        if upload != known {
            upload.save(&state)?;
        }
        let have = match is_there {
            true => Have {
                proved: digests.bytes,
                crc32c: u32::from_str_radix(&digests.crc32c, 16).unwrap_or_default(),
                ..Have::default()
            },
            false => Have { proved: upload.bytes(), crc32c: upload.crc32c(), ..Have::default() },
        };
        let bytes = Vec::new();
        self.current = Some(Current { key, state, upload, digests, listed, is_there, bytes });
        Ok(have)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), ShipError> {
        let mut current = self.current()?;
        let wanted = current.upload.bytes() + current.bytes.len() as u64;
        let is_too_much = wanted + bytes.len() as u64 > current.digests.bytes;
        if offset != wanted || current.is_there || is_too_much {
            let text = format!("{}: bytes came for {offset}, and {wanted} was next", current.key);
            return Err(self.refused(Refusal::Unexpected, text));
        }
        if current.bytes.is_empty() {
            let part = self.range_bytes(current.digests.bytes).min(current.digests.bytes - wanted);
            current.bytes.reserve_exact(usize::try_from(part).unwrap_or(bytes.len()));
        }
        current.bytes.extend_from_slice(bytes);
        self.current = Some(current);
        Ok(())
    }

    fn prove(&mut self, range: &Range) -> Result<Proved, ShipError> {
        let mut current = self.current()?;
        self.upload(&mut current, range)?;
        let crc32c = if current.is_there { range.crc32c } else { current.upload.crc32c() };
        self.current = Some(current);
        Ok(Proved { to: range.to, crc32c, counted: None })
    }

    fn finish(&mut self, expected: &Digests) -> Result<Digests, ShipError> {
        let mut current = self.current()?;
        if *expected != current.digests {
            let text = format!("{}: its digests are others than those that it was offered with", current.key);
            return Err(self.refused(Refusal::Unexpected, text));
        }
        if !current.is_there {
            match &current.upload.id {
                Some(id) => {
                    let etags = current.upload.parts.iter().map(|part| part.etag.clone()).collect();
                    self.client.complete(&current.key, id, etags)?;
                }
                None if current.digests.bytes == 0 => {
                    self.client.put(&current.key, Vec::new(), &current.digests)?;
                }
                None => {
                    let text = format!("{}: it is to be complete before its bytes came", current.key);
                    return Err(self.refused(Refusal::Unexpected, text));
                }
            }
        }
        self.read_back(&mut current, expected)
    }
}

/// An ETag without what surrounds it.
fn plain(etag: &str) -> &str {
    etag.trim().trim_start_matches("W/").trim_matches('"')
}

fn md5_of(bytes: &[u8]) -> String {
    Md5::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}
