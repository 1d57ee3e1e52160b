//! Settings of a source of fragments.
//!
//! ```text
//!  [[source]] format = "fragment" ─► Settings ─ check ─► Splitter · StreamSplitter
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_data::SourceId;

/// How the optional checksum over the payload is treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Checksum {
    /// It is checked if the board sends one.
    #[default]
    IfSent,
    /// It is checked; a fragment without one is refused.
    Required,
    /// It is never checked.
    Ignored,
}

/// Settings of a source with `format = "fragment"`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Number of boards that send to this link.
    pub boards: u16,
    /// Number of the first board in its headers; the other boards have the next numbers.
    pub first_board: u16,
    /// If several boards send to one port: numbers of boards that are left out because they are dead. Events are
    /// complete without them, and data that they send are counted as filtered.
    pub without: Vec<u16>,
    /// How the checksum over the payload is treated.
    pub checksum: Checksum,
    /// Longest payload of a fragment in bytes; a header with a larger length is refused. Without it 1048576. A
    /// fragment of a stream must fit a block of the source, too (`block_bytes`); by default, two of a length that is
    /// written here fit.
    pub longest_fragment_bytes: Option<u32>,
    /// Run number in the headers; fragments of other runs are refused. Without it, every run is accepted.
    pub run: Option<u32>,
    /// Length of one count of the boards' clock in picoseconds: for time slices.
    pub tick_ps: Option<u64>,
    /// For fragments in several datagrams: most incomplete fragments of one board. When it is exceeded, the oldest is
    /// given up.
    pub open_fragments: u8,
    /// For fragments in several datagrams: how long to wait for the remaining datagrams, in milliseconds.
    pub reassembly_ms: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            boards: 1,
            first_board: 0,
            without: Vec::new(),
            checksum: Checksum::IfSent,
            longest_fragment_bytes: None,
            run: None,
            tick_ps: None,
            open_fragments: 4,
            reassembly_ms: 100,
        }
    }
}

/// Settings that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fragments: `{key} = {found}`; allowed is {allowed}")]
pub struct SettingsError {
    /// The key, as in the configuration.
    pub key: &'static str,
    /// The value in the configuration.
    pub found: u64,
    /// What to write instead.
    pub allowed: String,
}

impl Settings {
    /// Longest payload of a fragment, unless configured.
    const LONGEST_FRAGMENT_BYTES: u32 = 1 << 20;
    /// Highest `longest_fragment_bytes`: the limit of a block of the pool.
    pub const MOST_BYTES: u32 = 1 << 29;
    /// Most boards of one link.
    pub const MOST_BOARDS: u16 = 4096;

    /// Number of boards that are not left out.
    pub fn boards_there(&self) -> u16 {
        self.boards.saturating_sub(self.without.len() as u16)
    }

    /// Longest accepted payload of a fragment in bytes.
    pub fn longest_fragment(&self) -> u32 {
        self.longest_fragment_bytes.unwrap_or(Settings::LONGEST_FRAGMENT_BYTES)
    }

    /// Their numbers, counted from that of the first board.
    pub fn offsets(&self) -> impl Iterator<Item = u16> + '_ {
        (0..self.boards).filter(|offset| !self.without.contains(&self.first_board.wrapping_add(*offset)))
    }

    fn check_without(&self) -> Result<(), SettingsError> {
        let refused =
            |found: u16, allowed: String| Err(SettingsError { key: "without", found: found.into(), allowed });
        for (index, number) in self.without.iter().enumerate() {
            if number.wrapping_sub(self.first_board) >= self.boards {
                let last = self.first_board + (self.boards - 1);
                return refused(*number, format!("a board of this source: {} to {last}", self.first_board));
            }
            if self.without[..index].contains(number) {
                return refused(*number, "each board once".to_owned());
            }
        }
        match self.without.first() {
            Some(first) if self.boards_there() == 0 => {
                refused(*first, "at least one board that is not left out; or remove the source".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Checks the settings of a source whose first board is `first_source`.
    ///
    /// # Errors
    /// The first key whose value cannot be used.
    pub fn check(&self, first_source: SourceId) -> Result<(), SettingsError> {
        let numbers = 1 << 16;
        let last_board = u64::from(self.first_board) + u64::from(self.boards);
        let last_source = u64::from(first_source.0) + u64::from(self.boards_there());
        let boards = |found: u64, allowed: String| SettingsError { key: "boards", found, allowed };
        for (fine, key, found, allowed) in [
            ((1..=Settings::MOST_BOARDS).contains(&self.boards), "boards", self.boards.into(), "1 to 4096"),
            (last_board <= numbers, "first_board", self.first_board.into(), "such that the last is 65535"),
            (
                self.longest_fragment() <= Settings::MOST_BYTES,
                "longest_fragment_bytes",
                self.longest_fragment().into(),
                "at most 536870912",
            ),
            (
                (1..=64).contains(&self.open_fragments),
                "open_fragments",
                self.open_fragments.into(),
                "1 to 64",
            ),
            (self.reassembly_ms > 0, "reassembly_ms", self.reassembly_ms.into(), "1 or more"),
        ] {
            if !fine {
                return Err(SettingsError { key, found, allowed: allowed.to_owned() });
            }
        }
        if last_source > numbers {
            let allowed = format!("at most {}: there are 65536 sources", numbers - u64::from(first_source.0));
            return Err(boards(self.boards.into(), allowed));
        }
        self.check_without()
    }
}
