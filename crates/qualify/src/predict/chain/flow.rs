//! Hops one behind the other, frame by frame: what leaves one arrives at the next.
//!
//! ```text
//!  trigger ─► each link: one frame behind the other ─┐ by time
//!                                                    ├─► servers of a hop: depth, rate, first in first out ─┐ by time
//!                                                    ┘       └ full: lost, or held back                   ├─► next hop
//! ```
//! Time goes in windows. What leaves parallel servers is given on in the order of time, up to the time before which no server can give
//! anything any more; the rest is carried into the next window. The same seed gives the same frames.

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Gamma};
use rand_pcg::Pcg64;
use thalweg_frontend::trigger::{SettingsError, Trigger};

use super::accepted::Accepted;
use super::source::{Emission, Part};
use super::{Chain, Deal, Hop, Through};

/// Frames of a window, about: they stay in a cache.
const WINDOW_FRAMES: f64 = 32_768.0;
/// A fraction of a frame that is rounding, not a frame that is too long.
const ROUNDING: f64 = 1e-9;
/// The number that stands for no trigger.
const FREE: u32 = u32::MAX;

/// One frame on its way.
#[derive(Clone, Copy, Debug)]
struct Passing {
    time_s: f64,
    wire_bytes: f64,
    payload_bytes: f64,
    trigger: u32,
    link: u32,
    can_lose: bool,
}

/// The counts of a hop.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Seen {
    pub(super) frames_in: u64,
    pub(super) frames_out: u64,
    pub(super) lost_frames: u64,
    /// Frames that found it full and were not lost, because they wait at their source.
    pub(super) held_back_frames: u64,
    pub(super) damaged_triggers: u64,
    pub(super) peak_bytes: f64,
    pub(super) longest_delay_s: f64,
    /// Fraction of the time that the busiest server was busy.
    pub(super) busy: f64,
}

/// The counts of all hops.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FlowCounts {
    pub(super) triggers: u64,
    pub(super) seconds: f64,
    pub(super) link: Seen,
    pub(super) hops: Vec<Seen>,
    pub(super) damaged_triggers: u64,
}

/// A set of trigger numbers.
#[derive(Default)]
struct Numbers(Vec<u64>, u64);

impl Numbers {
    fn add(&mut self, number: u32) {
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.1 += u64::from(self.0[word] & bit == 0);
        self.0[word] |= bit;
    }
}

/// Frames that are put into the order of time.
#[derive(Default)]
struct Order(Vec<Passing>);

impl Order {
    /// Moves what comes before `until_s` to `released`, in the order of time; simultaneous frames stay in their order.
    fn release(&mut self, until_s: f64, released: &mut Vec<Passing>) {
        self.0.sort_by(|one, other| one.time_s.total_cmp(&other.time_s));
        let ready = self.0.partition_point(|frame| frame.time_s <= until_s);
        released.extend(self.0.drain(..ready));
    }
}

/// Sources of one kind, and their links.
struct Emitter {
    parts: Vec<Vec<Part>>,
    first_link: u32,
    links_free_s: Vec<f64>,
    /// The time for which each link was busy.
    links_busy_s: Vec<f64>,
    can_lose: bool,
    free: Option<Free>,
    random: Pcg64,
}

/// Sources that are not triggered together.
struct Free {
    gaps: Gamma<f64>,
    next_s: Vec<f64>,
}

impl Emitter {
    /// Sends an answer over a link at a time; `link` counts within the source.
    fn send(&mut self, link: usize, (time_s, trigger): (f64, u32), rate: Option<f64>, sink: &mut Sink<'_>) {
        let answer = match self.parts.len() {
            1 => 0,
            count => self.random.random_range(0..count),
        };
        let free_s = &mut self.links_free_s[link];
        sink.seen.longest_delay_s = sink.seen.longest_delay_s.max(*free_s - time_s);
        for part in &self.parts[answer] {
            let busy_s = rate.map_or(0.0, |rate| part.wire_bytes / rate);
            *free_s = free_s.max(time_s) + busy_s;
            self.links_busy_s[link] += busy_s;
            sink.seen.frames_in += 1;
            sink.order.0.push(Passing {
                time_s: *free_s,
                wire_bytes: part.wire_bytes,
                payload_bytes: part.payload_bytes,
                trigger,
                link: self.first_link + link as u32,
                can_lose: self.can_lose,
            });
        }
    }

    fn send_free(&mut self, until_s: f64, rate: Option<f64>, sink: &mut Sink<'_>) {
        let Some(mut free) = self.free.take() else { return };
        for link in 0..free.next_s.len() {
            while free.next_s[link] <= until_s {
                self.send(link, (free.next_s[link], FREE), rate, sink);
                free.next_s[link] += free.gaps.sample(&mut self.random);
            }
        }
        self.free = Some(free);
    }
}

struct Sink<'s> {
    order: &'s mut Order,
    seen: &'s mut Seen,
}

/// One queue of a hop.
#[derive(Clone, Default)]
struct Server {
    level_bytes: f64,
    at_s: f64,
    departed_s: f64,
    served_bytes: f64,
}

/// A hop while it is simulated.
struct Serving<'c> {
    hop: &'c Hop,
    servers: Vec<Server>,
    order: Order,
    seen: Seen,
    damaged: Numbers,
}

impl Serving<'_> {
    /// Takes frames in the order of time, and gives those that leave, which are all that ever leave before `until_s`.
    fn serve(&mut self, frames: &mut Vec<Passing>, until_s: f64, damaged: &mut Numbers) {
        self.seen.frames_in += frames.len() as u64;
        let kept = self.hop.kept;
        let Some(rate) = self.hop.rate_bytes_per_s else {
            // Nothing is known of the hop: everything passes at once.
            frames.iter_mut().for_each(|frame| frame.payload_bytes *= kept);
            self.seen.frames_out += frames.len() as u64;
            return;
        };
        let depth_bytes = self.hop.depth_bytes.unwrap_or(f64::INFINITY);
        frames.retain_mut(|frame| {
            let bytes = match self.hop.through {
                Through::Wire => frame.wire_bytes,
                Through::Payload => frame.payload_bytes,
            };
            let server = match (self.hop.deal, frame.trigger) {
                (Deal::ByLink, _) | (Deal::ByTrigger, FREE) => frame.link,
                (Deal::ByTrigger, trigger) => trigger,
            };
            let server = &mut self.servers[server as usize % self.hop.servers as usize];
            server.level_bytes = (server.level_bytes - rate * (frame.time_s - server.at_s)).max(0.0);
            server.at_s = frame.time_s;
            if server.level_bytes + bytes > depth_bytes + ROUNDING * bytes {
                if frame.can_lose {
                    self.seen.lost_frames += 1;
                    if frame.trigger != FREE {
                        self.damaged.add(frame.trigger);
                        damaged.add(frame.trigger);
                    }
                    return false;
                }
                self.seen.held_back_frames += 1;
            }
            server.level_bytes += bytes;
            server.served_bytes += bytes;
            self.seen.peak_bytes = self.seen.peak_bytes.max(server.level_bytes);
            let delay_s = server.level_bytes / rate;
            self.seen.longest_delay_s = self.seen.longest_delay_s.max(delay_s);
            // Rounding must not turn the order round.
            server.departed_s = server.departed_s.max(frame.time_s + delay_s);
            frame.time_s = server.departed_s;
            frame.payload_bytes *= kept;
            true
        });
        if self.servers.len() > 1 {
            self.order.0.append(frames);
            let earliest_s = self.servers.iter().map(|server| server.departed_s.max(until_s));
            self.order.release(earliest_s.fold(f64::INFINITY, f64::min), frames);
        }
        self.seen.frames_out += frames.len() as u64;
    }

    fn finish(mut self, first_s: f64, last_s: f64) -> Seen {
        self.seen.damaged_triggers = self.damaged.1;
        if let Some(rate) = self.hop.rate_bytes_per_s {
            let busy =
                |server: &Server| server.served_bytes / rate / (server.departed_s.max(last_s) - first_s);
            self.seen.busy =
                self.servers.iter().map(busy).filter(|busy| busy.is_finite()).fold(0.0, f64::max);
        }
        self.seen
    }
}

/// A simulation that goes on window by window.
pub(super) struct Flow<'c> {
    link_rate: Option<f64>,
    emitters: Vec<Emitter>,
    order: Order,
    link: Seen,
    hops: Vec<Serving<'c>>,
    triggers: Option<std::iter::Peekable<std::iter::Take<Accepted>>>,
    window_s: f64,
    now_s: f64,
    first_s: Option<f64>,
    last_s: f64,
    sent: u64,
    most: u64,
    damaged: Numbers,
    frames: Vec<Passing>,
}

impl<'c> Flow<'c> {
    /// Makes the flow of at most `most` triggers or, where no source is triggered, of as many answers.
    ///
    /// # Errors
    /// When there can be no such triggers.
    pub(super) fn new(chain: &'c Chain, most: u64) -> Result<Flow<'c>, SettingsError> {
        let is_triggered = chain.is_triggered();
        let count = usize::try_from(most).unwrap_or(usize::MAX);
        let accepted = || Accepted::new(&chain.triggers).map(|accepted| accepted.take(count).peekable());
        let mut first_link = 0;
        let mut emitters = Vec::new();
        for (index, source) in chain.sources.iter().enumerate() {
            let mut random = Pcg64::seed_from_u64(chain.triggers.seed ^ (index as u64 + 1) << 32);
            let free = match source.emission {
                Emission::Triggered => None,
                // Checked by the chain: both are above 0.
                Emission::Free { rate_hz, hits } => {
                    Gamma::new(hits, 1.0 / (rate_hz * hits)).ok().map(|gaps| Free {
                        next_s: (0..source.links).map(|_| random.random::<f64>() / rate_hz).collect(),
                        gaps,
                    })
                }
            };
            emitters.push(Emitter {
                parts: source.parts(chain.mtu_bytes),
                first_link,
                links_free_s: vec![0.0; source.links as usize],
                links_busy_s: vec![0.0; source.links as usize],
                can_lose: source.can_lose(),
                free,
                random,
            });
            first_link += source.links;
        }
        let serving = |hop: &'c Hop| Serving {
            hop,
            servers: vec![Server::default(); hop.servers as usize],
            order: Order::default(),
            seen: Seen::default(),
            damaged: Numbers::default(),
        };
        Ok(Flow {
            link_rate: chain.link_bytes_per_s,
            emitters,
            order: Order::default(),
            link: Seen::default(),
            hops: chain.hops.iter().map(serving).collect(),
            triggers: is_triggered.then(accepted).transpose()?,
            window_s: (WINDOW_FRAMES / chain.frames_per_s()).max(1e-9),
            now_s: 0.0,
            first_s: None,
            last_s: 0.0,
            sent: 0,
            most,
            damaged: Numbers::default(),
            frames: Vec::new(),
        })
    }

    /// Goes on by a window; false when it was the last.
    pub(super) fn advance(&mut self) -> bool {
        // A pause between bursts is passed over.
        let next_s = match &mut self.triggers {
            Some(triggers) => match triggers.peek() {
                Some(trigger) => seconds(trigger),
                None => f64::INFINITY,
            },
            None if self.sent >= self.most => f64::INFINITY,
            None => self.now_s,
        };
        let has_free = self.emitters.iter().any(|emitter| emitter.free.is_some());
        let until_s = if next_s.is_infinite() || !has_free { next_s.max(self.now_s) } else { self.now_s };
        let until_s = until_s + self.window_s;
        if until_s.is_finite() {
            self.emit(until_s);
        }
        let watermark_s = self.emitters.iter().flat_map(|emitter| &emitter.links_free_s);
        let watermark_s = watermark_s.fold(f64::INFINITY, |least, free_s| least.min(free_s.max(until_s)));
        self.frames.clear();
        self.order.release(watermark_s, &mut self.frames);
        self.link.frames_out += self.frames.len() as u64;
        for hop in &mut self.hops {
            hop.serve(&mut self.frames, watermark_s, &mut self.damaged);
        }
        self.now_s = until_s;
        until_s.is_finite()
    }

    fn emit(&mut self, until_s: f64) {
        let mut sink = Sink { order: &mut self.order, seen: &mut self.link };
        if let Some(triggers) = &mut self.triggers {
            while let Some(trigger) = triggers.next_if(|trigger| seconds(trigger) <= until_s) {
                let at = (seconds(&trigger), self.sent as u32);
                self.first_s = self.first_s.or(Some(at.0));
                (self.last_s, self.sent) = (at.0, self.sent + 1);
                for emitter in self.emitters.iter_mut().filter(|emitter| emitter.free.is_none()) {
                    for link in 0..emitter.links_free_s.len() {
                        emitter.send(link, at, self.link_rate, &mut sink);
                    }
                }
            }
        }
        // After the last trigger no other frames follow either, so that it ends.
        let is_over = self.triggers.as_mut().map(|triggers| triggers.peek().is_none());
        let end_s = match is_over {
            Some(true) => self.last_s,
            Some(false) => until_s,
            None => {
                self.first_s = self.first_s.or(Some(0.0));
                self.last_s = until_s;
                until_s
            }
        };
        for emitter in &mut self.emitters {
            emitter.send_free(end_s, self.link_rate, &mut sink);
        }
        if self.triggers.is_none() {
            self.sent = sink.seen.frames_in;
        }
    }

    /// Returns the counts.
    pub(super) fn finish(mut self) -> FlowCounts {
        while self.advance() {}
        let first_s = self.first_s.unwrap_or(0.0);
        let last_s = self.last_s;
        if let Some(rate) = self.link_rate {
            let most = |values: fn(&Emitter) -> &Vec<f64>| {
                self.emitters.iter().flat_map(values).copied().fold(0.0, f64::max)
            };
            let ended_s = last_s.max(most(|emitter| &emitter.links_free_s));
            let busy = most(|emitter| &emitter.links_busy_s) / (ended_s - first_s);
            self.link.busy = if busy.is_finite() { busy } else { 0.0 };
            self.link.peak_bytes = self.link.longest_delay_s * rate;
        }
        FlowCounts {
            triggers: if self.triggers.is_some() { self.sent } else { 0 },
            seconds: last_s - first_s,
            link: self.link,
            hops: self.hops.into_iter().map(|hop| hop.finish(first_s, last_s)).collect(),
            damaged_triggers: self.damaged.1,
        }
    }

    /// Returns the counts of each hop, the links first, and how many frames have come there and not yet left.
    #[cfg(test)]
    pub(super) fn ledger(&self) -> Vec<(Seen, u64)> {
        let hops = self.hops.iter().map(|hop| (hop.seen.clone(), hop.order.0.len() as u64));
        std::iter::once((self.link.clone(), self.order.0.len() as u64)).chain(hops).collect()
    }
}

fn seconds(trigger: &Trigger) -> f64 {
    trigger.time_ns as f64 * 1e-9
}
