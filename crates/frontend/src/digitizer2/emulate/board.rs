//! The board: idle, armed, running; what is due until now goes out.
//!
//! ```text
//!  idle ─ arm ─► armed ─ start ─► running ─ stop, or duration over ─► armed ─ disarm ─► idle
//!                                   │ produce(now): start event, hits, statistics, stop event
//!  any ─ clear, reset ─► marker     └─ nothing to send: idle marker
//! ```

use std::sync::Arc;

use thalweg_data::{Hit, SentRecord};

use super::encode::Encoder;
use super::outgoing::Outgoing;
use super::packer::{Packer, Totals};
use super::physics::{FINE, Physics};
use super::prepared::{Ring, TruthSink, preparing};
use super::settings::{Firmware, Pace, Settings, SettingsError};
use crate::digitizer2::emit::{self, ScopeFields, StartFields, StatisticsFields, StopFields};

/// A silent UDP board says so this often: a marker sent before a client listens is lost.
const IDLE_MARKER_NS: u64 = 200_000_000;
/// Board time beyond 104 days cannot be told in picoseconds.
const LONGEST_RUN_NS: u64 = 9_000_000_000_000_000;
/// Hits worked out before the arena is looked at again.
const CHUNK: usize = 1024;

/// What the board is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Waits to be armed.
    #[default]
    Idle,
    /// Waits for the start.
    Armed,
    /// Takes data.
    Running,
}

impl State {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            State::Idle => "idle",
            State::Armed => "armed",
            State::Running => "running",
        }
    }
}

/// A command that does not fit the board's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the board is {} and cannot take `{command}`; {advice}", state.word())]
pub struct BoardError {
    /// What it was doing.
    pub state: State,
    /// What was asked.
    pub command: &'static str,
    /// What to do.
    pub advice: &'static str,
}

/// What a perfect reader would have recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// Hits in the order in which they were sent, with the board's own channel numbers.
    pub hits: Vec<Hit>,
    /// For each hit the 24-bit counter of the aggregate (of the scope event: its trigger id) that carried it.
    pub aggregates: Vec<u32>,
}

impl Truth {
    /// Forgets all; keeps the memory.
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
    state: State,
    inhibited: bool,
    started_ns: u64,
    /// Host time at which the run ends.
    end_ns: u64,
    start_sent: bool,
    marker_due: bool,
    last_sent_ns: u64,
    held_since_ns: u64,
    datagrams_then: u64,
    statistics_due: u64,
    saved: Box<[u64]>,
    waveforms: Vec<Vec<u16>>,
    trigger_id: u32,
    /// Clock count of the last hit.
    last_count: u64,
    truth: Option<Truth>,
}

impl Board {
    /// A board as described, idle. Prepared data are worked out here.
    ///
    /// # Errors
    /// When no board can be like that.
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
            saved: vec![0; settings.channels.into()].into(),
            settings,
            physics,
            encoder,
            ring,
            state: State::Idle,
            inhibited: false,
            started_ns: 0,
            end_ns: u64::MAX,
            start_sent: false,
            marker_due: false,
            last_sent_ns: 0,
            held_since_ns: 0,
            datagrams_then: 0,
            statistics_due: u64::MAX,
            waveforms: Vec::new(),
            trigger_id: 0,
            last_count: 0,
            truth: None,
        })
    }

    /// What the board was made from.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What it is doing.
    pub fn state(&self) -> State {
        self.state
    }

    /// What it has sent so far.
    pub fn totals(&self) -> Totals {
        self.packer.totals
    }

    /// Writes down from now on what the board sends, so that its receiver can ask what it has missed.
    pub fn keep_record(&mut self, record: Arc<SentRecord>) {
        self.packer.keep_record(record);
    }

    /// Bytes of prepared data that the board keeps.
    pub fn prepared_bytes(&self) -> usize {
        self.ring.as_ref().map_or(0, Ring::memory_bytes)
    }

    /// Keeps what a perfect reader would record, from now on; take it regularly, it grows.
    pub fn record_truth(&mut self, wanted: bool) {
        self.truth = wanted.then(Truth::default);
    }

    /// Moves the truth of what was sent since the last call to the end of `into`.
    pub fn take_truth(&mut self, into: &mut Truth) {
        let held = self.packer.held_hits() as usize;
        if let Some(truth) = &mut self.truth {
            let sent = truth.hits.len().saturating_sub(held);
            into.hits.extend(truth.hits.drain(..sent));
            into.aggregates.extend(truth.aggregates.drain(..sent));
        }
    }

    /// A client has opened the data connection: it waits for a marker.
    pub fn connected(&mut self) {
        self.marker_due = true;
    }

    /// Makes the board ready to start; voids what it held.
    ///
    /// # Errors
    /// While it runs.
    pub fn arm(&mut self) -> Result<(), BoardError> {
        if self.state == State::Running {
            return Err(self.refusal("arm", "stop it first"));
        }
        self.state = State::Armed;
        self.packer.begin();
        self.void();
        Ok(())
    }

    /// Starts the acquisition: board time 0 is `now_ns` of the host.
    ///
    /// # Errors
    /// When the board is not armed, or runs already.
    pub fn start(&mut self, now_ns: u64) -> Result<(), BoardError> {
        match self.state {
            State::Idle => return Err(self.refusal("start", "arm it first")),
            State::Running => return Err(self.refusal("start", "stop it first")),
            State::Armed => self.state = State::Running,
        }
        let longest = self.settings.duration_s.map_or(LONGEST_RUN_NS, |seconds| (seconds * 1e9) as u64);
        self.started_ns = now_ns;
        self.end_ns = now_ns.saturating_add(longest.min(LONGEST_RUN_NS));
        self.held_since_ns = now_ns;
        self.start_sent = false;
        self.trigger_id = 0;
        self.last_count = 0;
        self.saved.fill(0);
        self.physics.restart();
        self.encoder.restart(&self.settings);
        if let Some(ring) = &mut self.ring {
            ring.restart();
        }
        self.statistics_due = self
            .statistics_interval()
            .map_or(u64::MAX, |interval| self.physics.board_time_fine(0).saturating_add(interval));
        Ok(())
    }

    /// Stops the acquisition at `now_ns`; what was measured until then is still sent. With unlimited pace, where board time
    /// is not the host's, it stops where it is. Without effect when nothing runs.
    pub fn stop(&mut self, now_ns: u64) {
        let end_ns = if self.settings.pace == Pace::Unlimited { 0 } else { now_ns };
        self.end_ns = self.end_ns.min(end_ns.max(self.started_ns));
    }

    /// Closes or opens the veto input: while it is closed, pulses are not taken, and are counted. What was taken before is sent.
    pub fn inhibit(&mut self, inhibited: bool) {
        self.inhibited = inhibited;
    }

    /// Voids what the board holds; a run goes on.
    pub fn clear(&mut self) {
        self.void();
    }

    /// Ends a run at once, voids what the board holds, makes it idle.
    pub fn reset(&mut self) {
        self.state = State::Idle;
        self.void();
    }

    /// Makes the board idle; a run ends at `now_ns` with what was measured until then.
    pub fn disarm(&mut self, now_ns: u64) {
        match self.state {
            State::Running => self.stop(now_ns),
            _ => self.state = State::Idle,
        }
    }

    fn refusal(&self, command: &'static str, advice: &'static str) -> BoardError {
        BoardError { state: self.state, command, advice }
    }

    fn void(&mut self) {
        let held = self.packer.held_hits() as usize;
        if let Some(truth) = &mut self.truth {
            let sent = truth.hits.len().saturating_sub(held);
            truth.hits.truncate(sent);
            truth.aggregates.truncate(sent);
        }
        self.packer.discard();
        self.marker_due = true;
    }

    /// Appends to `out` what is due until `now_ns` (any monotonic clock of the host; `u64::MAX` for as fast as it
    /// goes, without idle markers), and says whether more is due than fitted: then send, clear, and call again.
    pub fn produce(&mut self, now_ns: u64, out: &mut Outgoing) -> bool {
        let before = out.lengths.len();
        if self.marker_due {
            self.marker_due = false;
            self.packer.clear_marker(out);
        }
        let more = self.state == State::Running && self.run(now_ns, out);
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

    fn run(&mut self, now_ns: u64, out: &mut Outgoing) -> bool {
        if !self.start_sent {
            self.start_sent = true;
            self.start_event(out);
        }
        if self.inhibited && now_ns == u64::MAX && self.end_ns == u64::MAX {
            // Board time that runs as fast as hits are taken stands still.
            return false;
        }
        let until_ns = now_ns.min(self.end_ns);
        let since_start_ns = until_ns.saturating_sub(self.started_ns);
        let until = self.physics.board_time_fine(since_start_ns.min(LONGEST_RUN_NS) * 1000);
        loop {
            let step = until.min(self.statistics_due);
            if self.inhibited {
                self.pass_over(step);
            } else if self.hits_until(step, out) {
                return true;
            }
            if step == until {
                break;
            }
            self.statistics(out);
        }
        if now_ns >= self.end_ns {
            self.stop_event(until, out);
            self.state = State::Armed;
        } else {
            self.flush_old(until_ns, out);
        }
        false
    }

    fn hits_until(&mut self, until: u64, out: &mut Outgoing) -> bool {
        let Some(ring) = &mut self.ring else {
            return match self.settings.firmware {
                Firmware::Scope => self.scope_until(until, out),
                _ => self.live_until(until, out),
            };
        };
        let truth = self
            .truth
            .as_mut()
            .map(|truth| TruthSink { hits: &mut truth.hits, aggregates: &mut truth.aggregates });
        // Statistics and events of the live path must not stay behind prepared datagrams.
        self.packer.send(false, out);
        ring.produce(until / FINE, &mut self.packer, out, truth)
    }

    /// Leaves out the hits until then.
    fn pass_over(&mut self, until: u64) {
        if let Some(ring) = &mut self.ring {
            self.packer.totals.hits_inhibited += ring.pass_over(until / FINE);
            return;
        }
        let samples = u64::from(self.settings.waveform_samples) * FINE;
        loop {
            let pulses = self.physics.pulses_until(until);
            let (taken, hits) = match (self.settings.firmware, pulses.first()) {
                (Firmware::Scope, Some(first)) => {
                    let end = first.time_fine + samples;
                    let taken = pulses.partition_point(|pulse| pulse.time_fine < end);
                    (taken, u64::from(self.settings.channels))
                }
                _ => (pulses.len(), pulses.len() as u64),
            };
            if taken == 0 && self.physics.is_worked_out(until) {
                return;
            }
            self.packer.totals.hits_inhibited += hits;
            self.physics.take(taken);
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
                let place = self.packer.hit_place(hit_bytes, out);
                self.encoder.hit(pulse, place);
                self.packer.count_hit();
                self.saved[usize::from(pulse.channel)] += 1;
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

    /// Each pulse outside of a window opens a window of all channels.
    fn scope_until(&mut self, until: u64, out: &mut Outgoing) -> bool {
        let samples = usize::from(self.settings.waveform_samples);
        let channels = usize::from(self.settings.channels);
        let bytes = 24 + 2 * samples * channels;
        while !out.is_full() {
            let pulses = self.physics.pulses_until(until);
            let Some(first) = pulses.first() else { return !self.physics.is_worked_out(until) };
            let end = first.time_fine + samples as u64 * FINE;
            let count = pulses.partition_point(|pulse| pulse.time_fine < end);
            self.encoder.scope(&pulses[..count], channels, &mut self.waveforms);
            let fields = ScopeFields {
                trigger_id: self.trigger_id,
                timestamp: first.time_fine / FINE,
                channel_mask: u64::MAX >> (64 - channels),
                ..ScopeFields::default()
            };
            self.last_count = fields.timestamp;
            let place = self.packer.event_place(bytes, out);
            let views: Vec<&[u16]> = self.waveforms.iter().map(Vec::as_slice).collect();
            emit::scope_event(place, &fields, &views);
            self.packer.totals.scope_events += 1;
            for channel in 0..channels as u16 {
                self.packer.count_hit();
                if let Some(truth) = &mut self.truth {
                    truth.hits.push(self.encoder.scope_truth(channel, fields.timestamp));
                    truth.aggregates.push(self.trigger_id & 0xFF_FFFF);
                }
            }
            self.packer.end_frame();
            self.trigger_id = self.trigger_id.wrapping_add(1);
            self.physics.take(count);
        }
        true
    }

    fn start_event(&mut self, out: &mut Outgoing) {
        if !self.settings.start_stop_events {
            return;
        }
        let mask = u64::MAX >> (64 - u32::from(self.settings.channels.min(64)));
        let fields = StartFields {
            acquisition_width: self.settings.waveform_samples.into(),
            traces: if self.settings.waveform_samples > 0 { 2 } else { 0 },
            log2_decimation: 0,
            channel_mask: mask,
        };
        emit::start(self.packer.event_place(32, out), &fields);
        self.packer.totals.special_events += 1;
        self.packer.send(false, out);
    }

    fn stop_event(&mut self, until: u64, out: &mut Outgoing) {
        if self.settings.start_stop_events {
            self.packer.close_aggregate(true);
            let reached = self.ring.as_ref().map_or(self.last_count, Ring::reached_count);
            let fields = StopFields { timestamp: (until / FINE).max(reached), dead_time: 0 };
            emit::stop(self.packer.event_place(24, out), &fields);
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

    /// One record per channel, each as if it came at the time it is due.
    fn statistics(&mut self, out: &mut Outgoing) {
        for channel in 0..self.settings.channels {
            let account = self.physics.account(channel);
            let saved = self.saved[usize::from(channel)];
            let fields = StatisticsFields {
                channel: channel as u8,
                real_time: self.statistics_due / FINE,
                dead_time: saved.saturating_mul(self.physics.dead_time_fine()) / FINE,
                triggers: (saved + account.triggers - account.saved) as u32,
                saved: saved as u32,
            };
            emit::statistics(self.packer.hit_place(32, out), &fields);
            self.packer.totals.statistics_records += 1;
        }
        let interval = self.statistics_interval().unwrap_or(u64::MAX);
        self.statistics_due = self.statistics_due.saturating_add(interval);
    }

    /// Sends an aggregate that has waited too long.
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
