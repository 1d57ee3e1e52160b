//! What of a capture could not be read, and where.
//!
//! ```text
//!  … record | damage ──── bytes looked through ──── | record …  ─► a place: from byte, to byte, what was seen
//! ```

/// Places that are described one by one; of the others the number and the bytes are known.
const MOST_DESCRIBED: usize = 4;

/// The places in a file where no packet could be read.
#[derive(Debug, Default)]
pub(super) struct Damage {
    described: Vec<String>,
    places: u64,
    /// Of these, those where bytes were not read.
    unread_places: u64,
    bytes: u64,
}

impl Damage {
    /// The bytes `from .. to` of the file could not be read because of `what`.
    pub fn note(&mut self, what: &str, from: u64, to: u64) {
        self.places += 1;
        self.unread_places += u64::from(to > from);
        self.bytes += to.saturating_sub(from);
        if self.described.len() < MOST_DESCRIBED {
            self.described.push(match to > from {
                true => format!("{what}, at byte {from}: {} bytes up to byte {to} were not read", to - from),
                false => format!("{what}, at byte {from}"),
            });
        }
    }

    /// Places where something could not be read.
    pub fn places(&self) -> u64 {
        self.places
    }

    /// Places with bytes that were not read; what is missing elsewhere is counted with the packet that it belongs to.
    pub fn unread_places(&self) -> u64 {
        self.unread_places
    }

    /// Bytes of the file that were not read.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All of it in words; `None` of a sound file.
    pub fn text(&self) -> Option<String> {
        let others = self.places - self.described.len() as u64;
        let more = match others {
            0 => String::new(),
            others => format!("; and {others} more places, {} bytes in all", self.bytes),
        };
        (self.places > 0).then(|| self.described.join("; ") + &more)
    }
}
