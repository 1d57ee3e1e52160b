//! The vocabulary of the ledger: stages, units, reasons, notes. Stages and reasons can be added.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::added::{Added, MOST_ADDED, Register, WordError};

/// Makes an enum whose variants know their place and their word, in one table.
macro_rules! vocabulary {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        #[repr(u8)]
        pub enum $name { $($(#[$doc])* $variant),+ }

        impl $name {
            /// All of them, in path order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// How many there are.
            pub const COUNT: usize = $name::ALL.len();

            /// The word in files, on the page and in metrics.
            pub const fn word(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }

            /// The one with this word.
            pub fn from_word(word: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|each| each.word() == word)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}

/// Words that recordings of before have, and those of today.
const RENAMED: [(&str, &str); 1] = [("stranger", "unexpected_sender")];

/// The word of today for one that a file has.
fn word_of_today(word: &str) -> &str {
    RENAMED.iter().find(|(before, _)| *before == word).map_or(word, |(_, today)| today)
}

/// The same for a vocabulary to which words can be added: those in the table are the ones that the balance equations know.
macro_rules! open_vocabulary {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$doc])* $variant),+,
            /// One that somebody has added, with a word of its own.
            Added(Added),
        }

        const _: () = {
            static REGISTER: Register = Register::new();

            impl $name {
                /// All that are listed, in path order.
                pub const ALL: &'static [$name] = &[$($name::$variant),+];

                /// How many are listed.
                pub const COUNT: usize = $name::ALL.len();

                /// Places for listed and added ones.
                pub const PLACES: usize = $name::COUNT + MOST_ADDED;

                /// All that there are, the added ones last.
                pub fn known() -> impl Iterator<Item = $name> {
                    $name::ALL.iter().copied().chain(REGISTER.all().map($name::Added))
                }

                /// Adds one, or says what a word means that a file has brought.
                ///
                /// # Errors
                /// When the word is listed, is no word for the ledger, or there is no place for it.
                pub fn add(word: &str, about: &str) -> Result<$name, WordError> {
                    if $name::ALL.iter().any(|listed| listed.word() == word) {
                        return Err(WordError::Taken(word.to_owned()));
                    }
                    let added = REGISTER.enter(word)?;
                    REGISTER.describe(added, about);
                    Ok($name::Added(added))
                }

                /// The one with a word that a file has.
                ///
                /// # Errors
                /// When it is no word for the ledger, or there is no place for it.
                pub fn of_file(word: &str) -> Result<$name, WordError> {
                    match $name::from_word(word) {
                        Some(known) => Ok(known),
                        None => REGISTER.enter(word).map($name::Added),
                    }
                }

                /// The word in files, on the page and in metrics.
                pub fn word(self) -> &'static str {
                    match self {
                        $($name::$variant => $word),+,
                        $name::Added(added) => REGISTER.word(added),
                    }
                }

                /// What an added one means, in the words of who added it; empty of listed ones.
                pub fn about(self) -> &'static str {
                    match self {
                        $name::Added(added) => REGISTER.about(added),
                        _ => "",
                    }
                }

                /// The one with this word, or with one that files of before have for it.
                pub fn from_word(word: &str) -> Option<$name> {
                    let word = word_of_today(word);
                    $name::known().find(|each| each.word() == word)
                }

                /// Its place among all.
                #[inline]
                pub const fn place(self) -> usize {
                    enum Place { $($variant),+ }
                    match self {
                        $($name::$variant => Place::$variant as usize),+,
                        $name::Added(added) => $name::COUNT + added.place(),
                    }
                }
            }

            impl Serialize for $name {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    serializer.serialize_str(self.word())
                }
            }

            impl<'de> Deserialize<'de> for $name {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                    let word = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                    $name::of_file(&word).map_err(D::Error::custom)
                }
            }

            impl JsonSchema for $name {
                fn schema_name() -> std::borrow::Cow<'static, str> {
                    stringify!($name).into()
                }

                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    let listed: Vec<&str> = $name::ALL.iter().map(|each| each.word()).collect();
                    let words = format!("One of {}, or the word of one that was added.", listed.join(", "));
                    json_schema!({ "type": "string", "description": words })
                }
            }
        };

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}

open_vocabulary! {
    /// A place on the path, where things are counted.
    Stage {
        /// The trigger: how often it fired, and how often it was refused.
        Trigger = "trigger",
        /// The sender's own totals, where it says them.
        Sender = "sender",
        /// What sequence numbers say was sent, against what was seen.
        Wire = "wire",
        /// The receive calls.
        Receive = "receive",
        /// Received bytes kept as they came, for replay.
        Raw = "raw",
        /// Framing: whole units out of received bytes.
        Unpack = "unpack",
        /// Hits out of units.
        Decode = "decode",
        /// Time order.
        Order = "order",
        /// Cuts: what is kept of hits, and of the events that are made of them.
        Cut = "cut",
        /// Coincidence: which hits belong together.
        Coincide = "coincide",
        /// Hits or fragments cut into slices of time, which are then built.
        TimeSlice = "time_slice",
        /// Events out of fragments.
        Build = "build",
        /// Events on their way to another unit.
        Ship = "ship",
        /// The recording.
        Record = "record",
        /// The spectra: which hits are shown as kept. A cut that was applied while the run went on filters here, and nowhere else.
        Spectra = "spectra",
    }
}

vocabulary! {
    /// What is counted.
    Unit {
        /// UDP payloads, or one receive call of a stream.
        Datagrams = "datagrams",
        /// Payload bytes.
        Bytes = "bytes",
        /// Whole units of a format: aggregates, scope events, packets, records.
        Frames = "frames",
        /// Self-triggered records.
        Hits = "hits",
        /// What one source sent for one trigger.
        Fragments = "fragments",
        /// All fragments of one trigger or time slice.
        Events = "events",
    }
}

open_vocabulary! {
    /// Why something was lost.
    LossReason {
        /// The sender counted more than was decoded here.
        NeverReceived = "never_received",
        /// Datagrams missing inside a buffer, by their ids.
        DatagramGap = "datagram_gap",
        /// Whole buffers missing; how many datagrams they had is not known.
        BufferGap = "buffer_gap",
        /// Frames missing, by the board's own counter.
        FrameGap = "frame_gap",
        /// A datagram longer than the room for it.
        DatagramTooLong = "datagram_too_long",
        /// From an address that is not this source's.
        UnexpectedSender = "unexpected_sender",
        /// No block was free and the policy is `drop`.
        NoBlock = "no_block",
        /// A capture that holds only the beginning of a packet.
        CaptureTruncated = "capture_truncated",
        /// Bytes of a capture file that could not be read, file headers and all; a datagram for each place, where more may have been.
        CaptureDamaged = "capture_damaged",
        /// A fragment of an IP packet whose other fragments are not there.
        FragmentMissing = "fragment_missing",
        /// The same datagram again.
        DuplicateDatagram = "duplicate_datagram",
        /// A datagram or packet whose own header or footer contradicts its length.
        BadFraming = "bad_framing",
        /// A hash or checksum that does not match any expected place.
        BadHash = "bad_hash",
        /// Bytes between a damage and the next header that can be trusted.
        Resynchronised = "resynchronised",
        /// A unit whose end never came.
        Unfinished = "unfinished",
        /// A unit larger than the memory for it.
        TooLarge = "too_large",
        /// A header that promises zero words.
        ZeroWords = "zero_words",
        /// A header that promises more words than there are.
        WordCount = "word_count",
        /// A format number that is not known.
        UnknownFormat = "unknown_format",
        /// A channel number beyond the board's.
        BadChannel = "bad_channel",
        /// A hit cut off by the end of its unit.
        TruncatedHit = "truncated_hit",
        /// A sample count that contradicts the size.
        BadSamples = "bad_samples",
        /// A constant, type or version that is not the configured one.
        WrongConstant = "wrong_constant",
        /// A length field that contradicts the bytes.
        BadLength = "bad_length",
        /// A time beyond what 64 bits of picoseconds can say: 106 days.
        TimeRange = "time_range",
        /// Arrived after its place in the time order had passed.
        Late = "late",
        /// The memory for ordering was full and the policy is `drop`.
        OverBudget = "over_budget",
        /// A fragment whose trigger's event was passed on without it.
        LateFragment = "late_fragment",
        /// A second fragment of one source for one trigger.
        DuplicateFragment = "duplicate_fragment",
        /// A fragment whose trigger number is too far from those of all other sources.
        OutOfWindow = "out_of_window",
        /// A fragment or message of another run.
        WrongRun = "wrong_run",
        /// A source number that is not configured.
        UnknownSource = "unknown_source",
        /// Fragments of an event that was incomplete, where the policy is `drop`.
        Incomplete = "incomplete",
        /// A fragment that never came, by the trigger numbers of the other sources.
        MissingFragment = "missing_fragment",
        /// A trigger that came while the system was busy.
        Busy = "busy",
        /// What was on its way to or from a unit when that died.
        UnitLost = "unit_lost",
        /// The disk was full.
        DiskFull = "disk_full",
        /// The disk or file failed.
        WriteFailed = "write_failed",
        /// A thread or worker ended before it had read everything.
        Abandoned = "abandoned",
        /// A board went away while it took data: counted once, for what it measured until it came back or the run ended.
        BoardGone = "board_gone",
        /// What a raw recording has lost by damage, and its replay cannot give: found by the sequence numbers on both sides of the
        /// gap; of received bytes, those of the file, shared evenly between its sources, since nobody knows whose they were.
        RecordingDamaged = "recording_damaged",
    }
}

vocabulary! {
    /// What is said of data beside what became of them: no loss by itself, and no part of any sum.
    Noted {
        /// Came after its place in the time order had passed, and was kept, marked.
        Late = "late",
        /// Between those that were seen, by their numbers, and came from nobody: what was lost with them is not known.
        Unseen = "unseen",
        /// Trigger numbers from the first to the last: of those that anybody was heard of or, where the trigger is known, of its own.
        Numbers = "numbers",
        /// Sent, and whoever sent them does not remember how many hits were in them.
        Uncounted = "uncounted",
        /// Begun, and cut off before they could be distinguished from others: whoever sent them knows which they are.
        CutOff = "cut_off",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_recordings_of_before_are_understood() {
        assert_eq!(LossReason::from_word("stranger"), Some(LossReason::UnexpectedSender));
        let known: Vec<&str> = LossReason::known().map(LossReason::word).collect();
        assert!(RENAMED.iter().all(|(before, today)| known.contains(today) && !known.contains(before)));
    }
}
