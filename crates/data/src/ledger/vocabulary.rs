//! The vocabulary of the ledger: stages, units, loss reasons, notes. Stages and reasons can be added.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::added::{Added, MOST_ADDED, Register, WordError};

/// Makes an enum of names from one table.
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

            /// The name in files, on the page and in metrics.
            pub const fn word(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }

            /// The variant with this name.
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

/// Names in older recordings, and their names now.
const RENAMED: [(&str, &str); 1] = [("stranger", "unexpected_sender")];

/// The name now of a name in a file.
fn current_word(word: &str) -> &str {
    RENAMED.iter().find(|(before, _)| *before == word).map_or(word, |(_, now)| now)
}

/// Makes an enum of names from one table, to which further names can be added. The balance equations know those in the table.
macro_rules! open_vocabulary {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$doc])* $variant),+,
            /// One that was added.
            Added(Added),
        }

        const _: () = {
            static REGISTER: Register = Register::new();

            impl $name {
                /// All that are listed, in path order.
                pub const ALL: &'static [$name] = &[$($name::$variant),+];

                /// How many are listed.
                pub const COUNT: usize = $name::ALL.len();

                /// Number of slots for listed and added ones.
                pub const CAPACITY: usize = $name::COUNT + MOST_ADDED;

                /// All listed and added ones, the added ones last.
                pub fn known() -> impl Iterator<Item = $name> {
                    $name::ALL.iter().copied().chain(REGISTER.all().map($name::Added))
                }

                /// Adds one with a description, or describes one that a file has added.
                ///
                /// # Errors
                /// If the name is listed or not valid, or no slot is free.
                pub fn add(word: &str, about: &str) -> Result<$name, WordError> {
                    if $name::ALL.iter().any(|listed| listed.word() == word) {
                        return Err(WordError::Taken(word.to_owned()));
                    }
                    let added = REGISTER.enter(word)?;
                    REGISTER.describe(added, about);
                    Ok($name::Added(added))
                }

                /// The one with this name, which comes from a file; an unknown name is added.
                ///
                /// # Errors
                /// If the name is not valid, or no slot is free.
                pub fn of_file(word: &str) -> Result<$name, WordError> {
                    match $name::from_word(word) {
                        Some(known) => Ok(known),
                        None => REGISTER.enter(word).map($name::Added),
                    }
                }

                /// The name in files, on the page and in metrics.
                pub fn word(self) -> &'static str {
                    match self {
                        $($name::$variant => $word),+,
                        $name::Added(added) => REGISTER.word(added),
                    }
                }

                /// The description that an added one was given; empty for listed ones.
                pub fn about(self) -> &'static str {
                    match self {
                        $name::Added(added) => REGISTER.about(added),
                        _ => "",
                    }
                }

                /// The one with this name, or with this name in older files.
                pub fn from_word(word: &str) -> Option<$name> {
                    let word = current_word(word);
                    $name::known().find(|each| each.word() == word)
                }

                /// Its index among all, below [`Self::CAPACITY`].
                #[inline]
                pub const fn index(self) -> usize {
                    enum Index { $($variant),+ }
                    match self {
                        $($name::$variant => Index::$variant as usize),+,
                        $name::Added(added) => $name::COUNT + added.index(),
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
                    let description = format!("One of {}, or the name of an added one.", listed.join(", "));
                    json_schema!({ "type": "string", "description": description })
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
    /// A stage of the path, where data are counted.
    Stage {
        /// The trigger: how often it fired, and how often it was refused.
        Trigger = "trigger",
        /// The sender's own totals, if it reports them.
        Sender = "sender",
        /// What was sent and received by sequence numbers.
        Wire = "wire",
        /// The receive calls.
        Receive = "receive",
        /// The recording of received bytes, unchanged, for replay.
        Raw = "raw",
        /// Framing: finds whole units in received bytes.
        Unpack = "unpack",
        /// Decodes hits from units.
        Decode = "decode",
        /// Time order.
        Order = "order",
        /// Cuts: select hits, and events that are made of hits.
        Cut = "cut",
        /// Coincidence: makes events of hits that belong together.
        Coincide = "coincide",
        /// Cuts hits or fragments into time slices, which are then built.
        TimeSlice = "time_slice",
        /// Builds events from fragments.
        Build = "build",
        /// Sends events to another unit.
        Ship = "ship",
        /// The event filter: selects the built events that are recorded.
        Filter = "filter",
        /// The recording.
        Record = "record",
        /// The spectra: selects the hits that are shown as kept. A cut that is applied during the run filters only here.
        Spectra = "spectra",
    }
}

vocabulary! {
    /// What is counted.
    Unit {
        /// UDP payloads, or receive calls of a stream.
        Datagrams = "datagrams",
        /// Payload bytes.
        Bytes = "bytes",
        /// Whole units of a format: aggregates, scope events, packets, records.
        Frames = "frames",
        /// Self-triggered records.
        Hits = "hits",
        /// The data of one source for one trigger.
        Fragments = "fragments",
        /// All fragments of one trigger or time slice, or the hits of a coincidence.
        Events = "events",
    }
}

impl Unit {
    /// From the finest to the coarsest: a loss that is counted in several is shown in the first of these.
    pub const FINEST_FIRST: [Unit; 6] =
        [Unit::Hits, Unit::Fragments, Unit::Events, Unit::Frames, Unit::Datagrams, Unit::Bytes];
}

open_vocabulary! {
    /// Why something was lost.
    LossReason {
        /// The sender counted more than was decoded here.
        NeverReceived = "never_received",
        /// Datagrams missing inside a buffer, by their ids.
        DatagramGap = "datagram_gap",
        /// Whole buffers missing; the number of datagrams in them is not known.
        BufferGap = "buffer_gap",
        /// Frames missing, by the board's own counter.
        FrameGap = "frame_gap",
        /// A datagram longer than the receive buffer.
        DatagramTooLong = "datagram_too_long",
        /// From an address that is not this source's.
        UnexpectedSender = "unexpected_sender",
        /// No block was free and the policy is `drop`.
        NoBlock = "no_block",
        /// A capture that contains only the beginning of a packet.
        CaptureTruncated = "capture_truncated",
        /// Bytes of a capture file that could not be read, including file headers. Each damaged position counts as one datagram, although
        /// there may have been more.
        CaptureDamaged = "capture_damaged",
        /// A fragment of an IP packet of which other fragments are missing.
        FragmentMissing = "fragment_missing",
        /// A datagram that was received before.
        DuplicateDatagram = "duplicate_datagram",
        /// A datagram or packet whose own header or footer contradicts its length.
        BadFraming = "bad_framing",
        /// A hash or checksum that does not match any expected position.
        BadHash = "bad_hash",
        /// Bytes between damage and the next valid header.
        Resynchronised = "resynchronised",
        /// A unit whose end was not received.
        Unfinished = "unfinished",
        /// A unit larger than the memory for it.
        TooLarge = "too_large",
        /// A header that states zero words.
        ZeroWords = "zero_words",
        /// A header that states more words than there are.
        WordCount = "word_count",
        /// An unknown format number.
        UnknownFormat = "unknown_format",
        /// A channel number that the board does not have.
        BadChannel = "bad_channel",
        /// A hit cut off by the end of its unit.
        TruncatedHit = "truncated_hit",
        /// A sample count that contradicts the size.
        BadSamples = "bad_samples",
        /// A constant, type or version that is not the configured one.
        WrongConstant = "wrong_constant",
        /// A length field that contradicts the bytes.
        BadLength = "bad_length",
        /// A time beyond the range of 64 bits of picoseconds, 106 days.
        TimeRange = "time_range",
        /// Arrived after its position in the time order had passed.
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
        /// Fragments of an incomplete event, if the policy is `drop`.
        Incomplete = "incomplete",
        /// A fragment that was not received, by the trigger numbers of the other sources.
        MissingFragment = "missing_fragment",
        /// A trigger that came while the system was busy.
        Busy = "busy",
        /// An event that the event filter did not decide within its deadline, if the policy is `drop`.
        Undecided = "undecided",
        /// Data on their way to or from a unit when it died.
        UnitLost = "unit_lost",
        /// The disk was full.
        DiskFull = "disk_full",
        /// The disk or file failed.
        WriteFailed = "write_failed",
        /// A thread or worker ended before it had read everything.
        Abandoned = "abandoned",
        /// A board became unreachable while it took data: counts once for everything that it measured until it came back or the run ended.
        BoardGone = "board_gone",
        /// Data that are missing in a replay because the raw recording is damaged, by the sequence numbers on both sides of the gap. For
        /// received bytes, the unread bytes of the file, divided evenly among its sources, since it is not known whose they were.
        RecordingDamaged = "recording_damaged",
        /// On file, and the disk could not force it: readable until then, and gone if the power fails.
        NotForced = "not_forced",
    }
}

vocabulary! {
    /// A note about data: it is no loss by itself, and not part of any sum.
    Noted {
        /// Arrived after its position in the time order had passed, and was kept with a flag.
        Late = "late",
        /// Triggers between received ones, by their numbers, that no board answered; it is not known what was lost with them.
        Unseen = "unseen",
        /// Trigger numbers from the first to the last: of those that any board answered or, if the trigger is known, of its own.
        Numbers = "numbers",
        /// Frames of which the sender no longer knows how many hits they contained.
        Uncounted = "uncounted",
        /// Fragments that were cut off before their trigger could be identified; only the sender knows which they are.
        CutOff = "cut_off",
        /// Hits that are the further parts of a record that the board counts as one hit of each channel.
        Continued = "continued",
        /// Events that the event filter did not decide within its deadline, and that were kept, as the policy says.
        Undecided = "undecided",
        /// Events that the event filter rejected, and that were kept for monitoring.
        Prescaled = "prescaled",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_older_recordings_are_recognised() {
        assert_eq!(LossReason::from_word("stranger"), Some(LossReason::UnexpectedSender));
        let known: Vec<&str> = LossReason::known().map(LossReason::word).collect();
        assert!(RENAMED.iter().all(|(before, now)| known.contains(now) && !known.contains(before)));
    }
}
