//! The emulated board: sends the data that are due.
//!
//! ```text
//!  running ─ produce(now) ─► start event, hits, statistics, stop event
//!  any ─ clear, reset ─► marker     └─ nothing to send: idle marker
//! ```

use std::sync::Arc;

use thalweg_data::{Hit, SentRecord};

use super::encode::Encoder;
use super::packer::Packer;
use super::physics::{FINE, Physics};
use super::prepared::{Ring, TruthSink, preparing};
use super::settings::{Firmware, Pace, Settings, SettingsError};
use super::zle::ZleRuns;
use crate::digitizer2::emit::{self, ScopeFields, StartFields, StatisticsFields, StopFields};
use crate::self_triggered::{Acquisition, BoardError, Outgoing, SelfTriggeredBoard, State, Totals};

/// Interval of the markers of a silent UDP board: a marker that is sent before a client listens is lost.
const IDLE_MARKER_NS: u64 = 200_000_000;
/// Hits computed before the output buffer is checked again.
const CHUNK: usize = 1024;

/// The hits that a perfect reader would record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// Hits in the order of sending, with the board's own channel numbers.
    pub hits: Vec<Hit>,
    /// For each hit, the 24-bit counter of its aggregate, or the trigger id of its scope event.
    pub aggregates: Vec<u32>,
}

impl Truth {
    /// Removes the content; keeps the memory.
    pub fn clear(&mut self) {
        self.hits.clear();
        self.aggregates.clear();
    }
}

/// An emulated board.
#[derive(Debug)]
pub struct Board {
    settings: Settings,
    physics: Physics,
    encoder: Encoder,
    packer: Packer,
    ring: Option<Ring>,
    acquisition: Acquisition,
    inhibited: bool,
    start_sent: bool,
    marker_due: bool,
    last_sent_ns: u64,
    held_since_ns: u64,
    datagrams_then: u64,
    statistics_due: u64,
    /// Board time up to which hits were sent or passed over, and how much of it was inhibited, in fine counts.
    reached: u64,
    inhibited_fine: u64,
    waveforms: Vec<Vec<u16>>,
    zle_runs: ZleRuns,
    trigger_id: u32,
    /// Clock count of the last hit.
    last_count: u64,
    truth: Option<Truth>,
}

impl Board {
    /// Creates an idle board with these settings, and computes its prepared data.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub fn new(settings: Settings) -> Result<Board, SettingsError> {
        settings.check()?;
        let mut physics = match settings.prepared {
            true => Physics::new(&preparing(&settings))?,
            false => Physics::new(&settings)?,
        };
        let mut encoder = Encoder::new(&settings);
        let ring = settings.prepared.then(|| Ring::new(&settings, &mut physics, &mut encoder));
        Ok(Board {
            packer: Packer::new(&settings),
            settings,
            physics,
            encoder,
            ring,
            acquisition: Acquisition::default(),
            inhibited: false,
            start_sent: false,
            marker_due: false,
            last_sent_ns: 0,
            held_since_ns: 0,
            datagrams_then: 0,
            statistics_due: u64::MAX,
            reached: 0,
            inhibited_fine: 0,
            waveforms: Vec::new(),
            zle_runs: ZleRuns::default(),
            trigger_id: 0,
            last_count: 0,
            truth: None,
        })
    }

    /// The settings of the board.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Memory of the prepared data in bytes.
    pub fn prepared_bytes(&self) -> usize {
        self.ring.as_ref().map_or(0, Ring::memory_bytes)
    }

    /// Appends the truth of the data sent since the last call to `into`, with the aggregates.
    pub fn take_truth_with_aggregates(&mut self, into: &mut Truth) {
        if let Some((sent, truth)) = self.sent_truth() {
            into.hits.extend(truth.hits.drain(..sent));
            into.aggregates.extend(truth.aggregates.drain(..sent));
        }
    }

    /// The truth, and how much of it has been sent.
    fn sent_truth(&mut self) -> Option<(usize, &mut Truth)> {
        let held = self.packer.held_hits() as usize;
        self.truth.as_mut().map(|truth| (truth.hits.len().saturating_sub(held), truth))
    }

    fn void(&mut self) {
        if let Some((sent, truth)) = self.sent_truth() {
            truth.hits.truncate(sent);
            truth.aggregates.truncate(sent);
        }
        self.packer.discard();
        self.marker_due = true;
    }

    fn run(&mut self, now_ns: u64, out: &mut Outgoing) -> bool {
        if !self.start_sent {
            self.start_sent = true;
            self.start_event(out);
        }
        if self.inhibited && now_ns == u64::MAX && !self.acquisition.is_stopped() {
            // Board time that depends on the number of hits does not advance here.
            return false;
        }
        let until = self.physics.board_time_fine(self.acquisition.elapsed_ns(now_ns) * 1000);
        loop {
            let step = until.min(self.statistics_due);
            if self.inhibited {
                self.pass_over(step);
                self.inhibited_fine += step.saturating_sub(self.reached);
            } else if self.hits_until(step, out) {
                self.reached = self.reached.max(self.last_count * FINE);
                return true;
            }
            self.reached = self.reached.max(step);
            if step == until {
                break;
            }
            self.statistics(out);
        }
        match self.acquisition.leave(now_ns) {
            true => self.stop_event(until, out),
            false => self.flush_old(now_ns, out),
        }
        false
    }

    fn hits_until(&mut self, until: u64, out: &mut Outgoing) -> bool {
        let Some(ring) = &mut self.ring else {
            return match self.settings.firmware {
                Firmware::Scope => self.scope_until(until, out),
                Firmware::Zle => self.zle_until(until, out),
                _ => self.live_until(until, out),
            };
        };
        let truth = self
            .truth
            .as_mut()
            .map(|truth| TruthSink { hits: &mut truth.hits, aggregates: &mut truth.aggregates });
        // Statistics and events outside of the ring must be sent before its datagrams.
        self.packer.send(false, out);
        ring.produce(until / FINE, &mut self.packer, out, truth)
    }

    /// Skips the hits until that time.
    fn pass_over(&mut self, until: u64) {
        if let Some(ring) = &mut self.ring {
            self.packer.totals.hits_inhibited += ring.pass_over(until / FINE);
            return;
        }
        loop {
            let pulses = self.physics.pulses_until(until);
            let (taken, hits) = match self.settings.firmware {
                firmware if firmware.has_windows() && !pulses.is_empty() => {
                    (self.encoder.scope_window(pulses).0, u64::from(self.settings.channels))
                }
                _ => (pulses.len(), pulses.len() as u64),
            };
            if taken == 0 && self.physics.is_worked_out(until) {
                return;
            }
            self.packer.totals.hits_inhibited += hits;
            self.physics.pass_over(taken);
        }
    }

    fn live_until(&mut self, until: u64, out: &mut Outgoing) -> bool {
        let longest = self.encoder.longest_hit_bytes();
        while !out.is_full() {
            let pulses = self.physics.pulses_until(until);
            let count = pulses.len().min(CHUNK).min(out.remaining() / longest + 1);
            if count == 0 {
                return !self.physics.is_worked_out(until);
            }
            for pulse in &pulses[..count] {
                let hit_bytes = self.encoder.next_hit_bytes();
                let words = self.packer.begin_hit(hit_bytes, out);
                self.encoder.hit(pulse, words);
                self.packer.count_hit();
                if let Some(truth) = &mut self.truth {
                    truth.hits.push(self.encoder.truth(pulse));
                    truth.aggregates.push(self.packer.counter());
                }
            }
            self.last_count = pulses[count - 1].time_fine / FINE;
            self.physics.take(count);
        }
        true
    }

    /// Draws the next window of all channels, which the first pulse outside of the one before opens; returns its time stamp.
    fn draw_window(&mut self, until: u64) -> Option<u64> {
        let pulses = self.physics.pulses_until(until);
        let timestamp = pulses.first()?.time_fine / FINE;
        let (count, _) = self.encoder.scope_window(pulses);
        self.encoder.scope(&pulses[..count], self.settings.channels.into(), &mut self.waveforms);
        self.physics.take(count);
        self.last_count = timestamp;
        Some(timestamp)
    }

    /// Counts a channel of a window, in the frame of this number.
    fn count_in_window(&mut self, channel: u16, timestamp: u64, frame: u32) {
        self.packer.count_hit();
        if let Some(truth) = &mut self.truth {
            truth.hits.push(self.encoder.scope_truth(channel, timestamp));
            truth.aggregates.push(frame);
        }
    }

    /// Appends a scope event for each window.
    fn scope_until(&mut self, until: u64, out: &mut Outgoing) -> bool {
        let channels = self.settings.channels;
        let bytes = self.settings.scope_event_bytes();
        while !out.is_full() {
            let Some(timestamp) = self.draw_window(until) else {
                return !self.physics.is_worked_out(until);
            };
            let fields = ScopeFields {
                trigger_id: self.trigger_id,
                timestamp,
                channel_mask: u64::MAX >> (64 - channels),
                ..ScopeFields::default()
            };
            let words = self.packer.begin_event(bytes, out);
            let views: Vec<&[u16]> = self.waveforms.iter().map(Vec::as_slice).collect();
            emit::scope_event(words, &fields, &views);
            self.packer.totals.scope_events += 1;
            for channel in 0..channels {
                self.count_in_window(channel, timestamp, self.trigger_id & 0xFF_FFFF);
            }
            self.packer.end_frame();
            self.trigger_id = self.trigger_id.wrapping_add(1);
        }
        true
    }

    /// Appends a record of zero-length encoding of each channel for each window.
    fn zle_until(&mut self, until: u64, out: &mut Outgoing) -> bool {
        let channels = self.settings.channels;
        while !out.is_full() {
            let Some(timestamp) = self.draw_window(until) else {
                return !self.physics.is_worked_out(until);
            };
            for channel in 0..channels {
                self.zle_runs.divide(&self.waveforms[usize::from(channel)]);
                let words = self.packer.begin_hit(self.zle_runs.record_bytes(), out);
                self.zle_runs.append(words, channel as u8, timestamp, channel + 1 == channels);
                self.count_in_window(channel, timestamp, self.packer.counter());
            }
        }
        true
    }

    fn start_event(&mut self, out: &mut Outgoing) {
        if !self.settings.start_stop_events {
            return;
        }
        let mask = u64::MAX >> (64 - u32::from(self.settings.channels.min(64)));
        let fields = StartFields {
            acquisition_width: self.settings.waveform_samples,
            traces: if self.settings.waveform_samples > 0 { 2 } else { 0 },
            log2_decimation: self.settings.decimation.ilog2() as u8,
            channel_mask: mask,
        };
        emit::start(self.packer.begin_event(32, out), &fields);
        self.packer.totals.special_events += 1;
        self.packer.send(false, out);
    }

    fn stop_event(&mut self, until: u64, out: &mut Outgoing) {
        if self.settings.start_stop_events {
            self.packer.close_aggregate(true);
            let reached = self.ring.as_ref().map_or(self.last_count, Ring::reached_count);
            let fields = StopFields { timestamp: (until / FINE).max(reached), dead_time: 0 };
            emit::stop(self.packer.begin_event(24, out), &fields);
            self.packer.totals.special_events += 1;
        }
        self.packer.send(true, out);
    }

    fn statistics_interval(&self) -> Option<u64> {
        let hits = matches!(self.settings.firmware, Firmware::Psd | Firmware::Pha);
        let counts =
            u64::from(self.settings.statistics_interval_ms) * u64::from(self.settings.sampling_mhz) * 1000;
        (hits && counts > 0).then_some(counts * FINE)
    }

    /// Appends one statistics record per channel, with the time at which it is due. The board is dead while it is inhibited, and at times
    /// that its clock showed before its start.
    fn statistics(&mut self, out: &mut Outgoing) {
        let due = self.statistics_due;
        let dead_fine = self.inhibited_fine + self.physics.board_time_fine(0);
        for channel in 0..self.settings.channels {
            let counts = self.physics.counts(channel);
            let fields = StatisticsFields {
                channel: channel as u8,
                real_time: due / FINE,
                dead_time: (counts.dead_fine_until(due) + dead_fine).min(due) / FINE,
                triggers: counts.triggers as u32,
                saved: counts.saved as u32,
            };
            emit::statistics(self.packer.begin_hit(32, out), &fields);
            self.packer.totals.statistics_records += 1;
        }
        let interval = self.statistics_interval().unwrap_or(u64::MAX);
        self.statistics_due = self.statistics_due.saturating_add(interval);
    }

    /// Sends an aggregate that is too old.
    fn flush_old(&mut self, until_ns: u64, out: &mut Outgoing) {
        let datagrams = self.packer.totals.datagrams;
        if self.packer.is_empty() || datagrams != self.datagrams_then {
            self.datagrams_then = datagrams;
            self.held_since_ns = until_ns;
        }
        let waited_ms = until_ns.saturating_sub(self.held_since_ns) as f64 / 1e6;
        if !self.packer.is_empty() && waited_ms >= self.settings.flush_ms {
            self.packer.send(true, out);
        }
    }
}

impl SelfTriggeredBoard for Board {
    fn state(&self) -> State {
        self.acquisition.state()
    }

    fn totals(&self) -> Totals {
        self.packer.totals
    }

    fn keep_record(&mut self, record: Arc<SentRecord>) {
        self.packer.keep_record(record);
    }

    fn record_truth(&mut self, wanted: bool) {
        self.truth = wanted.then(Truth::default);
    }

    fn take_truth(&mut self, into: &mut Vec<Hit>) {
        if let Some((sent, truth)) = self.sent_truth() {
            into.extend(truth.hits.drain(..sent));
            truth.aggregates.drain(..sent);
        }
    }

    fn connected(&mut self) {
        self.marker_due = true;
    }

    fn arm(&mut self) -> Result<(), BoardError> {
        self.acquisition.arm()?;
        self.packer.begin();
        self.void();
        Ok(())
    }

    fn start(&mut self, now_ns: u64) -> Result<(), BoardError> {
        self.acquisition.start(now_ns, self.settings.duration_s)?;
        self.held_since_ns = now_ns;
        self.start_sent = false;
        self.trigger_id = 0;
        self.last_count = 0;
        self.physics.restart();
        (self.reached, self.inhibited_fine) = (self.physics.board_time_fine(0), 0);
        self.encoder.restart(&self.settings);
        if let Some(ring) = &mut self.ring {
            ring.restart();
        }
        self.statistics_due = self
            .statistics_interval()
            .map_or(u64::MAX, |interval| self.physics.board_time_fine(0).saturating_add(interval));
        Ok(())
    }

    fn stop(&mut self, now_ns: u64) {
        // With unlimited pace, board time is independent of the host's time: it stops at its present value.
        self.acquisition.stop(if self.settings.pace == Pace::Unlimited { 0 } else { now_ns });
    }

    fn is_cut_short(&self) -> bool {
        self.acquisition.is_cut_short()
    }

    fn inhibit(&mut self, inhibited: bool) {
        self.inhibited = inhibited;
    }

    fn clear(&mut self) {
        self.void();
    }

    fn reset(&mut self) {
        self.acquisition.reset();
        self.void();
    }

    fn disarm(&mut self, now_ns: u64) {
        self.acquisition.disarm(now_ns);
    }

    fn produce(&mut self, now_ns: u64, out: &mut Outgoing) -> bool {
        let before = out.lengths.len();
        if self.marker_due {
            self.marker_due = false;
            self.packer.clear_marker(out);
        }
        let more = self.state() == State::Running && self.run(now_ns, out);
        if now_ns == u64::MAX {
            return more;
        }
        if out.lengths.len() > before {
            self.last_sent_ns = now_ns;
        } else if !more && now_ns.saturating_sub(self.last_sent_ns) >= IDLE_MARKER_NS {
            self.packer.idle_marker(out);
            self.last_sent_ns = now_ns;
        }
        more
    }
}
