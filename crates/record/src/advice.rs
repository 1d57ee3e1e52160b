//! What an operator can do about a loss: by its reason, the place where it was counted, and how the data come.
//!
//! ```text
//!  reason + stage + carrier ─► what was seen: to do | to do | to do
//!  keys of the source ───────► what was seen: to do; to do          what cannot be done here is left out
//! ```
//! The same word means different things: of a TCP board a gap was made in the board, of a UDP board more often on the way.
//! The ledger says what happened; a recording and its readers say as well what can be done about it, by the keys of the configuration that
//! made it. What to do is left out where it names a key that the source does not have, or dumps that its format does not keep.

use thalweg_data::ledger::{Carrier, Loss, LossKind, LossReport};
use thalweg_data::{DataKept, LedgerSnapshot, LossReason, SourceId, Stage};

/// What an advice calls the first refused bytes that some formats keep.
const DUMPS: &str = "dumps";

/// Every loss in this ledger with its advice, in path order; `known` says whether a source has a key.
pub fn losses_of(snapshot: &LedgerSnapshot, known: impl Fn(SourceId, &str) -> bool) -> Vec<Loss> {
    let advised = |(source, loss)| advised(loss, snapshot.carrier(source), |key| known(source, key));
    snapshot.losses_by_source().into_iter().map(advised).collect()
}

/// The same with advice that holds whatever its source is.
pub fn losses(snapshot: &LedgerSnapshot) -> Vec<Loss> {
    losses_of(snapshot, |_, _| false)
}

/// A loss with the advice for how its source's data come and for the keys that its source has.
pub fn advised(loss: Loss, carrier: Carrier, known: impl Fn(&str) -> bool) -> Loss {
    Loss { advice: advice(loss.reason, loss.stage, carrier, known), ..loss }
}

/// Losses as people read them, with advice that holds whatever their sources are. `kept` is as of [`LossReport::of`].
pub fn loss_report(snapshot: &LedgerSnapshot, kept: impl Into<DataKept>) -> LossReport {
    let kinds = LossKind::all_of(&losses(snapshot), &snapshot.path());
    LossReport { kinds, ..LossReport::of(snapshot, kept) }
}

/// What was seen, and what an operator can do about it here. `known` says whether the source has a key of this name, and
/// of `dumps` whether its format keeps them; keys with a section (`[build] age_ms`) are everybody's.
pub fn advice(reason: LossReason, stage: Stage, carrier: Carrier, known: impl Fn(&str) -> bool) -> String {
    let template = template(reason, stage, carrier);
    if let LossReason::Added(_) = reason {
        // The keys that it names are those of the stage.
        return template.to_owned();
    }
    let (seen, options) = template.split_once(": ").unwrap_or((template, ""));
    let fits = |option: &&str| (known(DUMPS) || !option.contains(DUMPS)) && source_keys(option).all(&known);
    let options: Vec<&str> = options.split(" | ").filter(fits).collect();
    match options.is_empty() {
        true => format!("{seen}: see the messages of the run"),
        false => format!("{seen}: {}", options.join("; ")),
    }
}

/// What was seen, and behind `: ` everything that can be done, separated by ` | `. For tests of the keys in it.
pub fn template(reason: LossReason, stage: Stage, carrier: Carrier) -> &'static str {
    at_stage(reason, stage, carrier).unwrap_or_else(|| anywhere(reason, carrier))
}

/// A unit that is too large where it is taken apart or put in order.
const TOO_LARGE: &str = "a unit was larger than the memory for it: raise `block_bytes` of the source";

/// The same of a loss that means something else at this stage than elsewhere.
fn at_stage(reason: LossReason, stage: Stage, carrier: Carrier) -> Option<&'static str> {
    use LossReason::*;
    match (stage, reason, carrier) {
        (Stage::Trigger, NeverReceived, _) => {
            Some("triggers were accepted, and no board's answer came: look whether the boards are running")
        }
        (Stage::Sender, Abandoned, _) => Some(
            "boards had answered and were stopped before they had sent it: their connection was too slow, or was held back",
        ),
        (Stage::Unpack, TooLarge, Carrier::Unknown) | (Stage::Decode | Stage::Order, TooLarge, _) => {
            Some(TOO_LARGE)
        }
        (Stage::Unpack, TooLarge, Carrier::Stream) => Some(
            "a unit was longer than allowed, or than a block: raise `block_bytes` | raise `longest_fragment_bytes` | raise `longest_block_bytes` | see the dumps for a damaged length",
        ),
        (Stage::Unpack, TooLarge, Carrier::Datagrams) => Some(
            "a unit was longer than allowed, or than the memory for it: raise `memory_bytes` | raise `longest_fragment_bytes` | raise `longest_block_bytes` | see the dumps for a damaged length",
        ),
        (Stage::Unpack, Late, _) => Some(
            "these came after their numbers, or their fragments, had been given up: raise `reassembly_ms` | raise the window of `sequence` | see whether the board was started anew, and its numbers with it | look for what delays or reorders what it sends",
        ),
        (Stage::TimeSlice, Late, _) => Some(
            "these came after their time slice had left: raise `[slices] disorder_ps` | see whether the board's clock stepped back, or one of its times was far ahead: `[slices] ahead_ms` says how far one may be",
        ),
        (Stage::TimeSlice, OutOfWindow, _) => Some(
            "their times are before the run, or further ahead of their arrival than `[slices] ahead_ms` allows: see whether the board's clock was reset at run start | see whether single times are damaged",
        ),
        (Stage::Ship, LateFragment, _) => Some(
            "their events had been built without these parts: look for what stopped this unit, or its boards | raise `[build.units] age_ms` if it was only slow",
        ),
        (Stage::Build, OverBudget, _) => Some(
            "the builder's memory was full, and datagrams cannot wait: raise `[build] memory_bytes` and `[build] depth` | look for a board that is behind the others",
        ),
        _ => None,
    }
}

/// The same at a stage where it means what it means elsewhere.
fn anywhere(reason: LossReason, carrier: Carrier) -> &'static str {
    use LossReason::*;
    match reason {
        NeverReceived | DatagramGap | BufferGap | FrameGap | MissingFragment | Unfinished => {
            gap(reason, carrier)
        }
        OverBudget | LateFragment | DuplicateFragment | OutOfWindow | Incomplete | TooLarge
        | UnknownSource | WrongRun | Abandoned => in_building(reason),
        DatagramTooLong => {
            "datagrams are longer than the buffer for them: raise `datagram_bytes` of the source"
        }
        UnexpectedSender => "another host sends to this port: give the board's address in the URL",
        NoBlock => {
            "all memory of the source was in use: raise its `memory_bytes` | use `policy = \"hold\"` | see which stage is slow"
        }
        CaptureTruncated => "the capture holds only beginnings: capture with a larger length (tcpdump -s 0)",
        CaptureDamaged => {
            "places in the capture could not be read, as the run's message says: look for a sound copy of the file, or repair it"
        }
        RecordingDamaged => {
            "the raw table that is replayed is damaged, or was, or lacks what its run could not write: see the losses of the recorded run: what its disk did not take was never on file | if it was damaged, recover the recorded run if that was not done, and replay it again | see in its run.json where rows are missing | look for a sound copy of the table"
        }
        FragmentMissing => "parts of IP packets are not there: use datagrams that fit the network's MTU",
        DuplicateDatagram => {
            "datagrams came again, by their numbers: look for two paths or a mirror port between board and host | see whether the board was restarted, so that its numbers began anew"
        }
        BadFraming | WrongConstant | BadLength => {
            "headers are not what they should be: see the dumps | check that `format` names what the board sends | check `profile` against the board's firmware | check `header_bytes` and the fields of the header against the board's manual"
        }
        BadHash => {
            "a checksum is wrong, so bytes were damaged by the board, its cable or a switch: see whether one board has them all | see the dumps"
        }
        Resynchronised | ZeroWords | WordCount | UnknownFormat | TruncatedHit | BadSamples => {
            "data were damaged on the way or by the board: see which source has them, and the loss before it on its path"
        }
        BadChannel => {
            "a channel number is beyond the board's: check `channels` of the source against the board | compare the board's channels with the configuration"
        }
        TimeRange => {
            "times lie beyond the 106 days that 64 bits of picoseconds can say: write `time_origin = \"first_hit\"` where the format has it, or start the board's clock anew"
        }
        Late => {
            "hits came after their place in the time order had passed: if one source carries several boards, name the fields that distinguish them in `part` | raise `disorder_ps` of the source | keep them, flagged, with `[order] late = \"keep\"`"
        }
        Busy => {
            "triggers came while BUSY was raised, and were not taken: in a pause, or because the rate is above what this system can take; see which stage is full"
        }
        Undecided => {
            "the event filter did not answer in time, and `[filter] undecided = \"drop\"`: raise `[filter] deadline_ms` | raise `[filter] workers` | see the run's messages for the worker that does not answer"
        }
        UnitLost => {
            "a unit ended with these on their way: see its own log | verify all nodes together, since they may be on file"
        }
        DiskFull => "the disk was full: free space | set `[record] directory` to another disk",
        BoardGone => {
            "a board stopped answering in the run: what it measured until it was back, or until the end, is not known; see the run's messages, and the board's power and cable"
        }
        WriteFailed => "the disk or file failed: see the message of the run, and the system's log",
        NotForced => {
            "these are on file, and the disk could not force them: copy the run elsewhere before the power is switched off, and see the system's log"
        }
        Added(_) if reason.about().is_empty() => {
            "a stage that was added took these, and has not said more: see what is written of that stage"
        }
        Added(_) => reason.about(),
    }
}

/// The keys in backticks that a source must have; those with a section are everybody's.
fn source_keys(option: &str) -> impl Iterator<Item = &str> {
    let quoted = option.split('`').skip(1).step_by(2);
    quoted.map(|key| key.split(" = ").next().unwrap_or(key)).filter(|key| !key.starts_with('['))
}

/// Something is missing by somebody's count.
const fn gap(reason: LossReason, carrier: Carrier) -> &'static str {
    use LossReason::*;
    match (reason, carrier) {
        (Unfinished, Carrier::Datagrams) => {
            "some datagrams of a fragment came and others did not: look at the socket's drop count and the switch's | raise `reassembly_ms`"
        }
        (Unfinished, ..) => "a stream ended in the middle of a unit: the board or its connection went away",
        (NeverReceived, Carrier::Stream) => {
            "boards sent more than was found in their streams: see what was refused, and connections that ended"
        }
        (NeverReceived, ..) => {
            "boards sent more than came: what the socket dropped, the gaps on the wire and what was refused say where it went"
        }
        (MissingFragment, Carrier::Stream) => {
            "this board did not answer triggers that others answered, and TCP loses nothing: look at its trigger cable, its buffers and its connection | if it is only slow, raise `[build] age_ms`"
        }
        (MissingFragment, ..) => {
            "others answered these triggers and nothing came from this board: if the socket dropped datagrams raise `receive_buffer_bytes` | look at the switch's drop counters and spread the boards' sending times | leave a board that is dead out with `without`"
        }
        (FrameGap, Carrier::Stream) => {
            "the board's own counter jumped, and TCP loses nothing: the board dropped these when its buffer was full; lower the rate or the data per trigger"
        }
        (FrameGap, ..) => {
            "the board's own counter jumped: if the socket dropped datagrams raise `receive_buffer_bytes` | look at the switch, and whether the board's buffer was full"
        }
        _ => {
            "numbers of datagrams jumped: if the socket dropped some raise `receive_buffer_bytes` (and net.core.rmem_max), pin the receiver, or lower the rate | look at the switch's drop counters"
        }
    }
}

/// Something came, and had no place.
const fn in_building(reason: LossReason) -> &'static str {
    use LossReason::*;
    match reason {
        OverBudget => {
            "the memory for time order was full: raise `[order] memory_bytes` | lower `[order] stall_ms`"
        }
        LateFragment => {
            "they came after their event had left: raise `[build] age_ms` | look for what delays this board"
        }
        Incomplete => {
            "they were whole, but another board had not answered and `[build] incomplete = \"drop\"`: see who has missing fragments"
        }
        DuplicateFragment => {
            "a board answered a trigger twice: look for two boards with one number, or a path that doubles datagrams | see whether the trigger was reset in the run, so that its numbers began anew"
        }
        OutOfWindow => {
            "trigger numbers are far from those of the other boards, or from those before, or beyond `[build] trigger_bits`: see the dumps | reset the board at run start | see whether the trigger was reset in the run, so that its numbers began anew | set `[build] trigger_bits` to what the boards count, 64 for boards that count beyond 32 bits; there is no number of 2^62 or more"
        }
        TooLarge => {
            "a fragment was longer than allowed: raise `longest_fragment_bytes` | raise `longest_block_bytes` | see the dumps for a damaged length"
        }
        WrongRun => {
            "a board still sends fragments of another run: reset it | set `run` of the source to what the boards send"
        }
        UnknownSource => {
            "board numbers are not those configured: see the dumps | check `boards` and `first_board` of the source | check `named_by` of the source"
        }
        _ => {
            "a stage ended before it had taken everything: see the run's message about the stage that failed"
        }
    }
}

#[cfg(test)]
mod tests {
    use thalweg_data::{Counters, Ledger, Unit};

    use super::*;

    #[test]
    fn advice_leaves_out_dumps_and_keys_that_a_source_does_not_have() {
        let all = advice(LossReason::BadFraming, Stage::Unpack, Carrier::Stream, |_| true);
        assert!(all.contains("see the dumps; check that `format`"), "{all}");
        let few = advice(LossReason::BadFraming, Stage::Unpack, Carrier::Stream, |key| key == "format");
        assert_eq!(
            few,
            "headers are not what they should be: check that `format` names what the board sends"
        );
        let none = advice(LossReason::BadFraming, Stage::Unpack, Carrier::Stream, |_| false);
        assert_eq!(none, "headers are not what they should be: see the messages of the run");
        let late = advice(LossReason::Late, Stage::Order, Carrier::Stream, |key| key == "disorder_ps");
        assert!(!late.contains("`part`") && late.contains("`disorder_ps`") && late.contains("`[order] late"));
    }

    #[test]
    fn what_is_late_or_out_of_window_is_mended_where_that_was_found() {
        let at = |reason, stage| advice(reason, stage, Carrier::Datagrams, |_| true);
        let unpack = at(LossReason::Late, Stage::Unpack);
        assert!(unpack.contains("`reassembly_ms`") && unpack.contains("started anew"), "{unpack}");
        for slices in [LossReason::Late, LossReason::OutOfWindow].map(|reason| at(reason, Stage::TimeSlice)) {
            assert!(slices.contains("`[slices] ") && slices.contains("clock"), "{slices}");
            assert!(!slices.contains("[order]") && !slices.contains("[build]"), "{slices}");
        }
        assert!(!unpack.contains("[order]") && !unpack.contains("hits"), "{unpack}");
    }

    #[test]
    fn every_advice_says_what_was_seen_and_what_to_do() {
        for &reason in LossReason::ALL {
            for stage in Stage::ALL {
                for carrier in [Carrier::Datagrams, Carrier::Stream, Carrier::Unknown] {
                    let advice = super::advice(reason, *stage, carrier, |_| true);
                    assert!(advice.contains(": "), "{reason} at {stage}: {advice}");
                    let network = advice.contains("switch") || advice.contains("receive_buffer");
                    let about_gaps = matches!(
                        reason,
                        LossReason::FrameGap | LossReason::MissingFragment | LossReason::NeverReceived
                    );
                    assert!(
                        !(about_gaps && carrier == Carrier::Stream && network),
                        "TCP loses nothing: {advice}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_advice_for_bytes_that_a_recording_lacks_covers_those_that_its_disk_did_not_take() {
        let advice = advice(LossReason::RecordingDamaged, Stage::Receive, Carrier::Stream, |_| false);
        let (disk, damage) = advice.split_once("; if it was damaged, ").expect("both cases");
        assert!(
            disk.contains("lacks what its run could not write") && !disk.contains("sound copy"),
            "{disk}"
        );
        assert!(damage.contains("recover the recorded run") && damage.contains("sound copy"), "{damage}");
    }

    #[test]
    fn advice_depends_on_how_the_data_come() {
        let ledger = Ledger::create(None, &["tcp".to_owned(), "udp".to_owned()]).expect("memory");
        let mut counters = Counters::default();
        counters.lost(LossReason::MissingFragment, Unit::Fragments, 1);
        for (source, units) in [(0, &[Unit::Bytes][..]), (1, &[Unit::Datagrams, Unit::Bytes])] {
            let _ = ledger.open(Stage::Receive, SourceId(source), units);
            ledger.open(Stage::Wire, SourceId(source), &[Unit::Fragments]).publish(&counters);
        }
        let losses = losses(&ledger.snapshot());
        assert!(losses[0].advice.contains("TCP loses nothing"), "{}", losses[0].advice);
        assert!(losses[1].advice.contains("switch"), "{}", losses[1].advice);
        let kind = loss_report(&ledger.snapshot(), DataKept::default()).kinds[0].to_string();
        let what = "lost 2 fragments (100.0 %) of 2 sources, most of tcp (1) at wire: missing_fragment — this board did not answer";
        assert!(kind.starts_with(what), "{kind}");
    }
}
