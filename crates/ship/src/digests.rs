//! What a copy is held against: our CRC-32C, and the adler32 and md5 that sites of storage ask for.
//!
//! ```text
//!  bytes in order ─► Digesting ─► Digests { bytes, crc32c, adler32, md5 }
//! ```

use std::fmt::Write;
use std::io;

use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};
use simd_adler32::Adler32;
use thalweg_data::checksum::Crc32c;
use thalweg_record::read::ReadAt;

/// Bytes read at a time.
const READ_BYTES: usize = 1 << 20;

/// The digests of a whole file, in lower-case hexadecimal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Digests {
    /// Bytes of the file.
    pub bytes: u64,
    /// CRC-32C, as `run.json` has it of tables and documents.
    pub crc32c: String,
    /// Adler-32 (RFC 1950); empty where it was left to the other side.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub adler32: String,
    /// MD5 (RFC 1321): found by every tool, and no protection against malice. Empty where it was left to the other side.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub md5: String,
}

impl Digests {
    /// Whether other ones are those of the same bytes: length and CRC-32C, and the others where both sides have them.
    pub fn agrees_with(&self, other: &Digests) -> bool {
        let is_same = |one: &str, other: &str| one.is_empty() || other.is_empty() || one == other;
        (self.bytes, &self.crc32c) == (other.bytes, &other.crc32c)
            && is_same(&self.adler32, &other.adler32)
            && is_same(&self.md5, &other.md5)
    }

    /// Whether none is left out.
    pub fn is_full(&self) -> bool {
        !self.adler32.is_empty() && !self.md5.is_empty()
    }
}

/// Digests of bytes that come one after the other.
#[derive(Clone)]
pub struct Digesting {
    bytes: u64,
    crc32c: Crc32c,
    /// Those that sites of storage ask for, where they are computed here.
    for_sites: Option<(Adler32, Md5)>,
}

impl Default for Digesting {
    fn default() -> Digesting {
        Digesting { bytes: 0, crc32c: Crc32c::new(), for_sites: Some((Adler32::new(), Md5::new())) }
    }
}

impl std::fmt::Debug for Digesting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Digesting").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Digesting {
    /// Of CRC-32C alone, where the others are known, or computed by the other side: MD5 takes several times the rest.
    pub fn crc32c_only() -> Digesting {
        Digesting { for_sites: None, ..Digesting::default() }
    }

    /// Whether all digests are computed.
    pub fn is_full(&self) -> bool {
        self.for_sites.is_some()
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.crc32c.add(bytes);
        if let Some((adler32, md5)) = &mut self.for_sites {
            adler32.write(bytes);
            md5.update(bytes);
        }
    }

    /// Takes the bytes of a file up to `end`.
    ///
    /// # Errors
    /// When it cannot be read so far.
    pub fn read_up_to(&mut self, end: u64, file: &impl ReadAt) -> io::Result<()> {
        let mut buffer = vec![0; READ_BYTES];
        while self.bytes < end {
            let length = (end - self.bytes).min(READ_BYTES as u64) as usize;
            file.read_at(&mut buffer[..length], self.bytes)?;
            self.update(&buffer[..length]);
        }
        Ok(())
    }

    /// Bytes that were taken.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// CRC-32C of these.
    pub fn crc32c(&self) -> u32 {
        self.crc32c.value()
    }

    /// The digests of what was taken.
    pub fn digests(&self) -> Digests {
        let (mut adler32, mut md5) = (String::new(), String::new());
        if let Some((found_adler32, found_md5)) = &self.for_sites {
            adler32 = format!("{:08x}", found_adler32.finish());
            for byte in found_md5.clone().finalize() {
                write!(md5, "{byte:02x}").expect("a string takes everything");
            }
        }
        Digests { bytes: self.bytes, crc32c: format!("{:08x}", self.crc32c()), adler32, md5 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_standards_however_the_bytes_come() {
        let mut whole = Digesting::default();
        whole.update(b"123456789");
        let digests = whole.digests();
        assert_eq!((digests.bytes, &digests.crc32c[..]), (9, "e3069283"), "RFC 3720, appendix B.4");
        assert_eq!(digests.md5, "25f9e794323b453885f5181f1b624d0b");
        let mut wikipedia = Digesting::default();
        wikipedia.update(b"Wikipedia");
        assert_eq!(wikipedia.digests().adler32, "11e60398");
        let mut parts = Digesting::default();
        parts.update(b"1234");
        parts.read_up_to(9, &&b"123456789"[..]).expect("there");
        assert_eq!(parts.digests(), digests);
        assert!(parts.read_up_to(10, &&b"123456789"[..]).is_err());
        let mut alone = Digesting::crc32c_only();
        alone.update(b"123456789");
        let alone = alone.digests();
        assert!(alone.agrees_with(&digests) && digests.agrees_with(&alone) && !alone.is_full());
        assert!(!alone.agrees_with(&Digests::default()));
        let other = Digests { md5: "other".to_owned(), ..digests.clone() };
        assert!(!other.agrees_with(&digests) && other.agrees_with(&alone));
    }
}
