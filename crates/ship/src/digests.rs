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
pub struct Digests {
    /// Bytes of the file.
    pub bytes: u64,
    /// CRC-32C, as `run.json` has it of tables and documents.
    pub crc32c: String,
    /// Adler-32 (RFC 1950).
    pub adler32: String,
    /// MD5 (RFC 1321): found by every tool, and no protection against malice.
    pub md5: String,
}

/// Digests of bytes that come one after the other.
#[derive(Clone)]
pub struct Digesting {
    bytes: u64,
    crc32c: Crc32c,
    adler32: Adler32,
    md5: Md5,
}

impl Default for Digesting {
    fn default() -> Digesting {
        Digesting { bytes: 0, crc32c: Crc32c::new(), adler32: Adler32::new(), md5: Md5::new() }
    }
}

impl std::fmt::Debug for Digesting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Digesting").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Digesting {
    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.crc32c.add(bytes);
        self.adler32.write(bytes);
        self.md5.update(bytes);
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
        let mut md5 = String::new();
        for byte in self.md5.clone().finalize() {
            write!(md5, "{byte:02x}").expect("a string takes everything");
        }
        Digests {
            bytes: self.bytes,
            crc32c: format!("{:08x}", self.crc32c()),
            adler32: format!("{:08x}", self.adler32.finish()),
            md5,
        }
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
    }
}
