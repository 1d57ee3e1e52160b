//! A file of MIDAS events, event by event, however it is compressed.
//!
//! ```text
//!  run00007.mid[.lz4|.gz] ──► bytes ──► Header, body │ Header, body │ … ──► end, or where and how the file is damaged
//! ```
//! The first bytes of a file, not its name, show how it is compressed. Memory holds one event.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use lz4_flex::frame::FrameDecoder;

use crate::error::ImportError;
use crate::midas_view::{ByteOrder, HEADER_BYTES, Header};

/// Most bytes of one event. MIDAS itself takes 4 MiB, unless its database says otherwise.
pub(crate) const MOST_EVENT_BYTES: u32 = 64 << 20;
/// Bytes that show the byte order.
const BEGINNING: usize = HEADER_BYTES + 8;

/// Where a file is damaged. Positions are those of the uncompressed bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    /// The byte with which the event begins.
    pub at: u64,
    /// Number of the event in the file, from 0.
    pub event: u64,
    /// Bytes of it that are there.
    pub bytes: u64,
    /// What was found, in words.
    pub found: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at byte {}, in event {}: {}", self.at, self.event, self.found)
    }
}

/// Reads a file.
pub(crate) struct MidFile {
    path: PathBuf,
    bytes: Box<dyn Read>,
    is_compressed: bool,
    order: ByteOrder,
    /// Bytes that were read to find the byte order, and are not given yet.
    ahead: Vec<u8>,
    at: u64,
    events: u64,
    body: Vec<u8>,
}

impl MidFile {
    /// Opens a file.
    ///
    /// # Errors
    /// When it cannot be read, or no MIDAS file begins like it.
    pub fn open(path: &Path) -> Result<MidFile, ImportError> {
        let failed = |action| move |cause| ImportError::io(path, action, cause);
        let mut file = BufReader::with_capacity(1 << 20, File::open(path).map_err(failed("opening"))?);
        let mut magic = Vec::new();
        (&mut file).take(4).read_to_end(&mut magic).map_err(failed("reading"))?;
        let is_bzip = magic.starts_with(b"BZh");
        let whole = io::Cursor::new(magic.clone()).chain(file);
        let (mut bytes, is_compressed): (Box<dyn Read>, bool) = match magic[..] {
            [0x1f, 0x8b, ..] => (Box::new(MultiGzDecoder::new(whole)), true),
            [0x04, 0x22, 0x4d, 0x18] => (Box::new(FrameDecoder::new(whole)), true),
            _ => (Box::new(whole), false),
        };
        let mut ahead = Vec::new();
        let read = (&mut bytes).take(BEGINNING as u64).read_to_end(&mut ahead);
        let refused = |found: String| ImportError::NotMidas { path: path.to_owned(), found };
        if let Err(cause) = read {
            return Err(match is_compressed {
                true => refused(format!("its compressed data cannot be read: {cause}")),
                false => ImportError::io(path, "reading", cause),
            });
        }
        let order = ByteOrder::of(&ahead).ok_or_else(|| match is_bzip {
            true => refused("it is compressed with bzip2; use `bunzip2` first".to_owned()),
            false => refused(format!(
                "it begins with {:02x?}, as no MIDAS file does",
                &ahead[..ahead.len().min(8)]
            )),
        })?;
        Ok(MidFile {
            path: path.to_owned(),
            bytes,
            is_compressed,
            order,
            ahead,
            at: 0,
            events: 0,
            body: Vec::new(),
        })
    }

    /// The byte order of its writer.
    pub fn order(&self) -> ByteOrder {
        self.order
    }

    /// Uncompressed bytes so far, those of whole events.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Whole events so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The body of the last event.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The next event, whose body is in [`MidFile::body`]; `None` at the end of the file. Behind damage nothing comes.
    ///
    /// # Errors
    /// When the system fails.
    pub fn next_event(&mut self) -> Result<Option<Result<Header, Damage>>, ImportError> {
        let mut header = [0; HEADER_BYTES];
        let found = match self.fill(&mut header)? {
            Ok(0) => return Ok(None),
            Ok(count) if count < HEADER_BYTES => {
                Err((count, format!("the file ends behind {count} bytes of a header")))
            }
            Ok(_) => Ok(()),
            Err(cause) => Err((0, format!("the compressed data cannot be read on: {cause}"))),
        };
        if let Err((count, found)) = found {
            return Ok(Some(Err(self.damage(count, found))));
        }
        let header = Header::read(&header, self.order).expect("16 bytes are a header");
        if header.bytes > MOST_EVENT_BYTES {
            let found = format!("{} bytes in one event, where {MOST_EVENT_BYTES} is the most", header.bytes);
            return Ok(Some(Err(self.damage(HEADER_BYTES, found))));
        }
        let mut body = std::mem::take(&mut self.body);
        body.resize(header.bytes as usize, 0);
        let found = self.fill(&mut body)?;
        self.body = body;
        let count = match found {
            Ok(count) if count == header.bytes as usize => {
                self.at += (HEADER_BYTES + count) as u64;
                self.events += 1;
                return Ok(Some(Ok(header)));
            }
            Ok(count) => {
                let found = format!("the file ends behind {count} of its {} bytes", header.bytes);
                return Ok(Some(Err(self.damage(HEADER_BYTES + count, found))));
            }
            Err(cause) => cause,
        };
        let found = format!("the compressed data cannot be read on: {count}");
        Ok(Some(Err(self.damage(HEADER_BYTES, found))))
    }

    fn damage(&self, bytes: usize, found: String) -> Damage {
        Damage { at: self.at, event: self.events, bytes: bytes as u64, found }
    }

    /// Fills `into` as far as there are bytes. The inner error is one of the compression.
    fn fill(&mut self, into: &mut [u8]) -> Result<Result<usize, io::Error>, ImportError> {
        let given = self.ahead.len().min(into.len());
        into[..given].copy_from_slice(&self.ahead[..given]);
        self.ahead.drain(..given);
        let mut count = given;
        while count < into.len() {
            match self.bytes.read(&mut into[count..]) {
                Ok(0) => break,
                Ok(more) => count += more,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) if self.is_compressed => return Ok(Err(cause)),
                Err(cause) => return Err(ImportError::io(&self.path, "reading", cause)),
            }
        }
        Ok(Ok(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::midas_view::tests::{golden, golden_big};
    use std::io::Write;

    /// Ids of the whole events of a file with this content, and its damage in words.
    fn read(content: &[u8]) -> Result<(Vec<u16>, Option<String>), String> {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        std::fs::write(file.path(), content).expect("written");
        let mut mid = MidFile::open(file.path()).map_err(|error| error.to_string())?;
        let mut ids = Vec::new();
        while let Some(event) = mid.next_event().map_err(|error| error.to_string())? {
            match event {
                Ok(header) => ids.push(header.id),
                Err(damage) => return Ok((ids, Some(damage.to_string()))),
            }
        }
        Ok((ids, None))
    }

    fn lz4(content: &[u8]) -> Vec<u8> {
        let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
        encoder.write_all(content).expect("memory");
        encoder.finish().expect("memory")
    }

    fn gz(content: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(content).expect("memory");
        encoder.finish().expect("memory")
    }

    const IDS: [u16; 4] = [0x8000, 1, 1, 0x8001];

    #[test]
    fn events_are_found_in_plain_and_compressed_files_of_either_byte_order() {
        for content in [golden(), golden_big()] {
            for file in [content.clone(), lz4(&content), gz(&content)] {
                assert_eq!(read(&file), Ok((IDS.to_vec(), None)));
            }
        }
    }

    #[test]
    fn damage_is_named_with_its_place_and_what_lies_before_is_read() {
        let content = golden();
        let (ids, damage) = read(&content[..140]).expect("begins as it should");
        let damage = damage.expect("cut");
        assert_eq!(ids, IDS[..2]);
        assert_eq!(damage, "at byte 131, in event 2: the file ends behind 9 bytes of a header");
        let (_, damage) = read(&content[..170]).expect("begins as it should");
        assert_eq!(
            damage.as_deref(),
            Some("at byte 131, in event 2: the file ends behind 23 of its 32 bytes")
        );
        let mut endless = content.clone();
        endless[131 + 15] = 0x80;
        let (ids, damage) = read(&endless).expect("begins as it should");
        assert!(ids == IDS[..2] && damage.is_some_and(|damage| damage.contains("bytes in one event")));
        let gz = gz(&content.repeat(100));
        let (ids, damage) = read(&gz[..gz.len() / 2]).expect("begins as it should");
        assert!(
            !ids.is_empty()
                && damage.is_some_and(|damage| damage.contains("the compressed data cannot be read on"))
        );
    }

    #[test]
    fn other_files_are_refused_in_words() {
        for (content, words) in [
            (&b"BZh91AY&SY"[..], "use `bunzip2` first"),
            (b"", "it begins with []"),
            (b"PK\x03\x04 and so on", "as no MIDAS file does"),
            (&[0x1f, 0x8b, 8, 0, 0], "its compressed data cannot be read"),
        ] {
            let refused = read(content).expect_err("no MIDAS file");
            assert!(refused.contains(words), "{words}: {refused}");
        }
    }
}
