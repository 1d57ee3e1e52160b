//! The summary of a run that has ended.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use serde::Serialize;
use thalweg_analysis::channels::Channel;
use thalweg_analysis::normalise::{Corrected, Normalised, NormalisedEvents};
use thalweg_data::ledger::{Entries, Loss, LossReport, percent_of};
use thalweg_data::record_join::JoinCounts;
use thalweg_data::{Kept, LedgerSnapshot, Quality, SourceId, StageRole, Unit};
use thalweg_monitor::state::{DeadTime, EventSelection, RefusedUnit};
use thalweg_qualify::host::{Counter, losses_text};

use super::refused::write_first;
use super::spectra_left_out::SpectraLeftOut;
use crate::observed::Observed;

/// The events of a run at its end.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EventSummary {
    /// How often the trigger fired, where it says.
    pub triggers_offered: Option<u64>,
    /// Of these, the triggers that came while the system was busy.
    pub triggers_refused: Option<u64>,
    /// Events built, complete or not.
    pub events_built: u64,
    /// Of these, the events to which a source had not answered.
    pub events_partial: u64,
    /// Events that were incomplete and dropped on request.
    pub events_dropped: u64,
    /// Triggers that no board has answered, by their numbers: those between the first event and the last and, where the trigger is emulated
    /// here, those before and behind.
    pub triggers_unseen: u64,
    /// Events that came to the recording and were not left out or lost there.
    pub events_recorded: u64,
    /// What is kept of them.
    pub events_kept: Kept,
    /// What the event filter has done with those that were built; `None` of a run without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selection: Option<EventSelection>,
    /// Fragments in them.
    pub fragments_recorded: u64,
    /// Fragments that boards did not send, or that were lost before they came, by the others' trigger numbers.
    pub fragments_missing: u64,
    /// Fragments that came and could not be used.
    pub fragments_lost: u64,
    /// Events by why they were closed.
    pub closed: BTreeMap<&'static str, u64>,
    /// Half of all events are at most so large, bytes.
    pub median_event_bytes: u64,
    /// Half of all events were built within this time of their first fragment, microseconds.
    pub median_build_us: f64,
    /// All but one in a hundred.
    pub p99_build_us: f64,
    /// Refused ÷ offered, 0 to 1: the dead time by triggers. `None` where the trigger does not report, or none came.
    pub dead_time_fraction: Option<f64>,
    /// How long BUSY was raised, and how long it was not, until the stop: the dead time by the clock. `None` where nobody
    /// here knows.
    pub busy_time: Option<DeadTime>,
    /// What the recorded events stand for; `None` of time slices, which no trigger makes.
    pub normalised: Option<NormalisedEvents>,
    /// What the emulated boards say of their own timing, where there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emulation: Option<serde_json::Value>,
}

/// One source at the end.
#[derive(Clone, Debug, Serialize)]
pub struct SourceSummary {
    /// Its name.
    pub name: String,
    /// How it was set up.
    pub description: String,
    /// Hits decoded.
    pub hits: u64,
    /// Fragments found.
    pub fragments: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Live and dead time as its boards report them, the mean over its channels; `None` where they do not.
    pub dead_time: Option<DeadTime>,
    /// Pulses of all its channels per second of live time.
    pub corrected_rate_hz: Corrected,
    /// The kernel's counters and the like, which place losses and are added to nothing.
    pub drop_counters: BTreeMap<&'static str, u64>,
}

/// One channel of a source of hits at the end: what its hits stand for.
#[derive(Clone, Debug, Serialize)]
pub struct ChannelSummary {
    /// Its number.
    pub channel: u16,
    /// Its name.
    pub name: String,
    /// Its source.
    pub source: String,
    /// Hits in its spectra.
    pub hits: u64,
    /// Seconds that its board counted; `None` where the board does not report them.
    pub real_time_s: Option<f64>,
    /// Of these, the seconds in which it could take a hit.
    pub live_time_s: Option<f64>,
    /// How well the live time is known.
    pub live_time_quality: Quality,
    /// Dead time ÷ real time, 0 to 1.
    pub dead_time_fraction: Option<f64>,
    /// Pulses that its hits stand for.
    pub loss_corrected: Corrected,
    /// Pulses per second of live time.
    pub rate_hz: Corrected,
}

impl ChannelSummary {
    /// The channels of which there are hits or live times; `source_of` names the source of hits of a number.
    pub(crate) fn all_of<'n>(
        observed: &Observed,
        source_of: impl Fn(SourceId) -> &'n str,
    ) -> Vec<ChannelSummary> {
        let known = observed.spectra.history().normalised();
        let rows = observed.channels.channels().iter().zip(known);
        let has_any = rows.filter(|(_, own)| own.hits() > 0 || own.live_time_s.is_some());
        let summary = |(channel, own): (&Channel, Normalised)| ChannelSummary {
            channel: channel.number,
            name: channel.name.clone(),
            source: source_of(channel.source).to_owned(),
            hits: own.hits(),
            real_time_s: own.real_time_s,
            live_time_s: own.live_time_s,
            live_time_quality: own.live_time_quality,
            dead_time_fraction: own.dead_time_fraction(),
            loss_corrected: own.corrected(own.hits()),
            rate_hz: own.rate_hz(),
        };
        has_any.map(summary).collect()
    }
}

/// How scope records follow each other on their channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ScopeJoins {
    /// Records that continue the one before.
    pub joined: u64,
    /// Samples that they share with the ones before.
    pub samples_overlapped: u64,
    /// Records that claim an overlap that cannot be.
    pub refused: u64,
}

impl ScopeJoins {
    /// Of these counts; `None` where nothing was counted.
    pub(crate) fn of(counts: JoinCounts) -> Option<ScopeJoins> {
        let JoinCounts { joined, samples_overlapped, refused } = counts;
        (counts != JoinCounts::default()).then_some(ScopeJoins { joined, samples_overlapped, refused })
    }
}

/// The end of a run, as `--json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// `stopped`, or `failed` with the reason in `failures` or `discrepancies`.
    pub state: &'static str,
    /// Where the recording is.
    pub run_directory: Option<PathBuf>,
    /// The time for which data were taken, seconds.
    pub elapsed_seconds: f64,
    /// Hits that the senders count, where every sender reports.
    pub hits_sent: Option<u64>,
    /// Hits that came to the recording and were not left out or lost there; where no hits are kept, all that came.
    pub hits_recorded: u64,
    /// What is kept of them.
    pub hits_kept: Kept,
    /// Hits that came to the recording and are in none of its tables, as asked.
    pub hits_left_out: u64,
    /// Hits known to be lost, at any stage; whether these are all says `loss`. `None` where others are lost, and nobody knows how many.
    pub hits_lost: Option<u64>,
    /// Hits that came too late for their place in time and were recorded, flagged; `None` of a run without hits.
    pub hits_late: Option<u64>,
    /// Hits that are further parts of scope records: the senders count such a record as one hit of each channel.
    pub hits_continued: u64,
    /// Events of hits that were recorded, of a run with coincidence.
    pub coincidences_recorded: Option<u64>,
    /// What these stand for, of a run with coincidence; known where no hit was lost.
    pub coincidences_corrected: Option<Corrected>,
    /// Bytes of damaged captures and recordings that could not be read.
    pub bytes_unread: u64,
    /// Losses as people read them: totals with how well they are known, and kinds.
    pub loss: LossReport,
    /// Of a run with triggered sources.
    pub events: Option<EventSummary>,
    /// True if the ledger balances, at the end and in every snapshot on the way.
    pub ledger_closed: bool,
    /// The places where the ledger does not balance.
    pub discrepancies: Vec<String>,
    /// Numbered snapshots whose counts were checked while the run went on.
    pub snapshots: u64,
    /// The time from the start of the sources to the first hit passed to the recording, milliseconds.
    pub first_hit_ms: Option<f64>,
    /// How scope records follow each other, in a run where any do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope_joins: Option<ScopeJoins>,
    /// Spectra that were not filled or not saved, in a run where there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spectra_left_out: Option<SpectraLeftOut>,
    /// By source.
    pub sources: Vec<SourceSummary>,
    /// By channel of the sources of hits.
    pub channels: Vec<ChannelSummary>,
    /// Every loss, with place, reason and quality.
    pub losses: Vec<Loss>,
    /// The first units that were refused: whose, which, why, what was expected, how they begin.
    pub refused: Vec<RefusedUnit>,
    /// The ledger, line by line.
    pub ledger: Vec<Entries>,
    /// What the host has thrown away meanwhile, of whatever program: it says where datagrams were lost, and is no part of any sum.
    pub host_counters: Vec<Counter>,
    /// Why the run failed.
    pub failures: Vec<String>,
    /// Nothing came from any source, or nothing of what came could be used: what was seen, and what to do. Such a run has not
    /// failed, for a beam may be off, but its command ends with exit code 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_data: Option<String>,
}

impl Summary {
    /// Returns true if the run did what it should.
    pub fn is_good(&self) -> bool {
        self.ledger_closed && self.failures.is_empty()
    }

    /// Explains why it did not, for readers of the run's record.
    pub fn remarks(&self) -> Vec<String> {
        let open = self.discrepancies.iter().map(|line| format!("the ledger does not balance: {line}"));
        self.failures.iter().cloned().chain(open).chain(self.no_data.clone()).collect()
    }

    /// The summary for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_counts(&mut text);
        let _ = self.write_ledger(&mut text);
        text
    }

    fn write_counts(&self, text: &mut String) -> std::fmt::Result {
        let seconds = self.elapsed_seconds.max(1e-9);
        write!(text, "{} after {seconds:.2} s:", self.state)?;
        if let Some(events) = &self.events {
            events.write(seconds, text)?;
        }
        if self.events.is_none() || self.hits_recorded + self.hits_left_out > 0 {
            let rate = |hits: u64| hits as f64 / seconds / 1e6;
            let kept = self.hits_kept.words_of_hits();
            write!(text, " {} {kept} ({:.3} M/s)", self.hits_recorded, rate(self.hits_recorded))?;
            match self.hits_left_out {
                0 => writeln!(text)?,
                left_out => writeln!(text, ", {left_out} left out on request ({:.3} M/s)", rate(left_out))?,
            }
        }
        for source in &self.sources {
            let SourceSummary {
                name, hits, fragments, bytes, description, dead_time, corrected_rate_hz, ..
            } = source;
            let (count, what) = if *fragments > 0 { (fragments, "fragments") } else { (hits, "hits") };
            writeln!(text, "  {name:<12} {count:>12} {what}  {bytes:>14} bytes  {description}")?;
            if let Some(DeadTime { live_seconds, fraction, .. }) = dead_time {
                let dead = 100.0 * fraction;
                writeln!(
                    text,
                    "               dead time {dead:.2} %, live time {live_seconds:.3} s, as its boards report"
                )?;
            }
            if let Corrected { value: Some(rate), uncertainty: Some(uncertainty), .. } = corrected_rate_hz {
                writeln!(
                    text,
                    "               {rate:.1} ± {uncertainty:.1} pulses per second of live time, losses included"
                )?;
            }
        }
        if let Some(coincidences) = self.coincidences_recorded {
            writeln!(text, "  {coincidences} coincidences recorded")?;
        }
        self.write_scope_records(text)?;
        self.spectra_left_out.iter().try_for_each(|left_out| left_out.write(text))?;
        if let Some(late) = self.hits_late.filter(|late| *late > 0) {
            writeln!(
                text,
                "  {late} hits came too late for the time order; they are recorded, flagged `late`"
            )?;
        }
        if let Some(sent) = self.hits_sent {
            writeln!(text, "hits sent: {sent}")?;
        }
        self.loss.totals.iter().try_for_each(|total| writeln!(text, "{total}"))?;
        match self.bytes_unread {
            0 => {}
            unread => writeln!(text, "bytes unread: {unread} in damaged files")?,
        }
        match losses_text(&self.host_counters) {
            Some(host) => writeln!(text, "{host}"),
            None => Ok(()),
        }
    }

    fn write_scope_records(&self, text: &mut String) -> std::fmt::Result {
        if let Some(joins) = &self.scope_joins {
            let ScopeJoins { joined, samples_overlapped, refused } = joins;
            writeln!(
                text,
                "  {joined} scope records continue the one before on their channel, sharing {samples_overlapped} samples; {refused} \
                 overlaps that cannot be were refused"
            )?;
        }
        if self.hits_continued > 0 {
            let continued = self.hits_continued;
            writeln!(
                text,
                "  {continued} hits are further parts of scope records that are too large to be received whole"
            )?;
        }
        Ok(())
    }

    fn write_ledger(&self, text: &mut String) -> std::fmt::Result {
        let kinds = &self.loss.kinds;
        kinds.iter().take(LOSSES_SHOWN).try_for_each(|kind| writeln!(text, "  {kind}"))?;
        if kinds.len() > LOSSES_SHOWN {
            writeln!(
                text,
                "  … and losses of {} other kinds; `--json` lists all",
                kinds.len() - LOSSES_SHOWN
            )?;
        }
        write_first(&self.refused, text)?;
        if self.ledger_closed {
            writeln!(text, "the ledger balances ({} snapshots on the way)", self.snapshots)?;
        } else {
            writeln!(text, "THE LEDGER DOES NOT BALANCE:")?;
            self.discrepancies.iter().try_for_each(|line| writeln!(text, "  {line}"))?;
        }
        self.failures.iter().try_for_each(|failure| writeln!(text, "failed: {failure}"))?;
        self.no_data.iter().try_for_each(|words| writeln!(text, "NO DATA: {words}"))?;
        match &self.run_directory {
            Some(directory) => writeln!(text, "recorded in {}", directory.display()),
            None => Ok(()),
        }
    }
}

/// Kinds of losses that the text lists.
const LOSSES_SHOWN: usize = 12;

/// A corrected number as text, with its uncertainty; `None` where it is unknown.
fn in_words(number: &Corrected, digits: usize) -> Option<String> {
    let least = if number.quality == Quality::AtLeast { "at least " } else { "" };
    let (value, uncertainty) = number.value.zip(number.uncertainty)?;
    Some(format!("{least}{value:.digits$} ± {uncertainty:.digits$}"))
}

impl EventSummary {
    fn write(&self, seconds: f64, text: &mut String) -> std::fmt::Result {
        let (built, rate) = (self.events_built, self.events_built as f64 / seconds);
        write!(text, " {built} events built ({rate:.0}/s), ")?;
        match self.events_kept {
            Kept::Rows => writeln!(text, "{} recorded", self.events_recorded)?,
            Kept::RawBytes => writeln!(text, "raw bytes recorded")?,
            Kept::Nothing => writeln!(text, "not recorded")?,
        }
        let complete = built - self.events_partial;
        write!(text, "  {complete} complete, {} partial", self.events_partial)?;
        if self.events_dropped > 0 {
            write!(text, ", {} dropped because they were incomplete", self.events_dropped)?;
        }
        if let Some(selection) = &self.selection {
            let EventSelection { rejected, prescaled, undecided_kept, undecided_lost } = selection;
            write!(text, "; {rejected} rejected by the event filter")?;
            for (count, what) in [
                (prescaled, "of the rejected recorded for monitoring"),
                (undecided_kept, "undecided and kept"),
                (undecided_lost, "undecided and lost"),
            ] {
                if *count > 0 {
                    write!(text, ", {count} {what}")?;
                }
            }
        }
        let (missing, unused) = (self.fragments_missing, self.fragments_lost);
        writeln!(text, "; {missing} fragments never came, {unused} came and could not be used")?;
        let unseen = self.triggers_unseen;
        if let Some(percent) = percent_of(unseen, built + self.events_dropped + unseen).filter(|_| unseen > 0)
        {
            writeln!(text, "  triggers unseen: {unseen} ({percent:.2} %), numbers that came from no board")?;
        }
        writeln!(
            text,
            "  event size p50 {} B; build latency p50 {:.0} µs, p99 {:.0} µs",
            self.median_event_bytes, self.median_build_us, self.p99_build_us
        )?;
        self.write_dead_time(text)?;
        self.write_normalised(text)
    }

    fn write_normalised(&self, text: &mut String) -> std::fmt::Result {
        let Some(normalised) = &self.normalised else { return Ok(()) };
        if let Some(count) = in_words(&normalised.loss_corrected, 0) {
            writeln!(text, "  they stand for {count} accepted triggers, losses included")?;
        }
        if let Some(rate) = in_words(&normalised.rate_hz, 1) {
            writeln!(text, "  {rate} triggers per second, dead time and losses included")?;
        }
        Ok(())
    }

    /// Two different things: which triggers were refused, and for how long BUSY was raised.
    fn write_dead_time(&self, text: &mut String) -> std::fmt::Result {
        // Time slices have no trigger, and raise no BUSY.
        let Some(normalised) = &self.normalised else { return Ok(()) };
        if let (Some(offered), Some(refused)) = (self.triggers_offered, self.triggers_refused) {
            write!(text, "  triggers: {offered} offered, {refused} refused")?;
            match percent_of(refused, offered) {
                Some(percent) => writeln!(text, "; dead time {percent:.2} % (refused ÷ offered)")?,
                None => writeln!(text)?,
            }
        }
        match self.busy_time {
            Some(DeadTime { dead_seconds, live_seconds, fraction }) => {
                write!(text, "  BUSY for {dead_seconds:.3} s, {:.2} % of the time", 100.0 * fraction)?;
                // The time of a replay is none in which triggers came, and real boards may refuse triggers without BUSY.
                match normalised.live_time_quality {
                    Quality::Unknown => writeln!(text, "; live time unknown"),
                    _ => writeln!(text, "; live time {live_seconds:.3} s"),
                }
            }
            None => writeln!(
                text,
                "  BUSY: how long it was raised is unknown here; the node with the trigger reports it"
            ),
        }
    }
}

/// Of a run without a hit or fragment, what was seen instead; `None` where there was data, where this process reads no source,
/// and where boards said things that are no hits.
pub(crate) fn no_data(counts: &LedgerSnapshot, sources: &[SourceSummary], seconds: f64) -> Option<String> {
    let reads = counts.at(StageRole::Intake).next().is_some();
    if !reads || sources.iter().any(|source| source.hits > 0 || source.fragments > 0) {
        return None;
    }
    let bytes: u64 = sources.iter().map(|source| source.bytes).sum();
    // Without a hit or fragment, only stages before the one that makes them had something to lose.
    let here = [StageRole::Intake, StageRole::Work];
    let is_refused = counts.losses().iter().any(|loss| here.contains(&loss.stage.role()) && loss.count > 0);
    let came = format!("{bytes} bytes came in {seconds:.1} s");
    match (is_refused, bytes) {
        (true, _) => Some(format!(
            "{came}, and no hit or fragment was found in them; see the losses and compare `format` and its keys with what the boards send"
        )),
        (false, 0) => Some(format!(
            "nothing came from any source in {seconds:.1} s; see whether the boards are on and send to the addresses in the configuration"
        )),
        (false, _) => None,
    }
}

/// Hits missing by the senders' totals although nothing was seen to be missing: a loss without a place.
pub(crate) fn unplaced_loss(counts: &LedgerSnapshot, hits_never_received: u64) -> Option<String> {
    let is_reported = |loss: &Loss| loss.stage.role() == StageRole::SenderTotals;
    let placed = counts
        .losses()
        .iter()
        .any(|loss| loss.unit != Unit::Hits && (!is_reported(loss) || loss.unit == Unit::Datagrams));
    (hits_never_received > 0 && !placed).then(|| {
        format!("{hits_never_received} hits are missing by the senders' totals, and no gap was seen")
    })
}

#[cfg(test)]
mod tests {
    use thalweg_analysis::normalise::{EventCounts, TriggerReport};

    use super::*;

    #[test]
    fn a_live_time_is_reported_only_where_it_is_known() {
        let text = |trigger: Option<TriggerReport>| {
            let counts = EventCounts {
                built: 100,
                recorded: 100,
                lost_before_building: 0,
                knows_all_triggers: trigger.is_some(),
                lost: None,
                filtered: None,
                trigger,
                live_at_most_s: None,
            };
            let events = EventSummary {
                busy_time: DeadTime::of(0.05, 1.0),
                normalised: Some(NormalisedEvents::of(counts)),
                ..EventSummary::default()
            };
            let mut text = String::new();
            events.write_dead_time(&mut text).expect("a string takes all");
            text
        };
        let report = TriggerReport { real_time_s: 1.0, live_time_s: 0.95, ..TriggerReport::default() };
        assert_eq!(text(Some(report)), "  BUSY for 0.050 s, 5.00 % of the time; live time 0.950 s\n");
        assert_eq!(
            text(None),
            "  BUSY for 0.050 s, 5.00 % of the time; live time unknown\n",
            "as of a replay"
        );
    }
}
