//! Which hits of a stretch of the stream stand alone, and which stand in pairs: most of them, found at a glance.
//!
//! ```text
//!  hits ─► those that take part: time, place, source ─► near the next? ─┬─ alone ──────────────► counted by source
//!           one after another        in columns          wide            ├─ two, nobody near ───► an event, or two single hits
//!                                                                        └─ more, first, last ─► through the rule
//! ```
//! What decides cannot be foreseen, hit by hit, so no step but the last branches on it. The first and the last of a stretch have
//! neighbours elsewhere.

use thalweg_data::Hit;
use thalweg_data::simd::{Wide, widest};

use super::NO_PART;
use super::output::Output;
use super::roles::{Role, Roles};

/// Hits at a time, at most: all columns stay in the first-level cache.
pub(super) const STRETCH: usize = 512;

/// How far windows reach, and what two hits are that have nobody else near.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    /// A hit that is farther than this from both its neighbours is in no event, picoseconds.
    pub reach_ps: i64,
    /// What becomes of two that are not.
    pub pairs: Pairs,
}

/// What becomes of two hits within reach of each other and of nobody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pairs {
    /// They are an event if they are different.
    Events,
    /// They are too few for an event.
    Single,
    /// The rule says.
    OfTheRule,
}

impl Reach {
    /// Of a rule that makes events of at least so many different hits within reach, and of so many hits at most.
    pub fn new(reach_ps: i64, at_least: usize, longest: u64) -> Reach {
        let pairs = match at_least {
            // A rule cuts an event that has grown to the longest.
            _ if longest <= 2 || at_least < 2 => Pairs::OfTheRule,
            2 => Pairs::Events,
            _ => Pairs::Single,
        };
        Reach { reach_ps, pairs }
    }
}

/// The hits of a stretch that take part, in columns; memory of one thread, used again.
#[derive(Debug)]
pub(super) struct Scan {
    count: usize,
    // One more than hits: the next is written before it is known whether it counts.
    times_ps: Box<[i64; STRETCH + 1]>,
    places: Box<[u16; STRETCH + 1]>,
    sources: Box<[u16; STRETCH + 1]>,
    /// Whether a hit and the next are within reach.
    near_next: Box<[u8; STRETCH + 1]>,
    /// Of those that take part, which have somebody near, or may have.
    crowded: Box<[u16; STRETCH + 1]>,
}

impl Default for Scan {
    fn default() -> Scan {
        Scan {
            count: 0,
            times_ps: Box::new([0; STRETCH + 1]),
            places: Box::new([0; STRETCH + 1]),
            sources: Box::new([0; STRETCH + 1]),
            near_next: Box::new([0; STRETCH + 1]),
            crowded: Box::new([0; STRETCH + 1]),
        }
    }
}

/// What comes of a stretch, in order.
pub(super) enum Found {
    /// A hit, by its place, for the rule.
    Hit(usize),
    /// Two hits that nobody else is near to.
    Pair(usize, usize),
}

impl Scan {
    /// Looks through at most [`STRETCH`] hits. Counts those that stand alone, and those that take no part, in `alone`, by source, and
    /// gives the others to `each`.
    pub fn look(
        &mut self,
        hits: &[Hit],
        pass: Option<&[u8]>,
        (roles, reach): (&Roles, Reach),
        alone: &mut [u64],
        mut each: impl FnMut(Found),
    ) {
        debug_assert!(hits.len() <= STRETCH);
        match pass {
            None => self.take(hits, |_| true, roles, alone),
            Some(pass) => self.take(hits, |index| pass[index] != 0, roles, alone),
        }
        let count = self.count;
        if count == 0 {
            return;
        }
        widest(NearNext {
            times_ps: &self.times_ps[..count],
            reach_ps: reach.reach_ps,
            near: &mut self.near_next[..count - 1],
        });
        let crowded = self.count_alone(alone);
        let (near, last) = (&self.near_next[..count], count - 1);
        let place = |taken: u16| usize::from(self.places[usize::from(taken)]);
        let mut rest = &self.crowded[..crowded];
        while let [first, behind @ ..] = rest {
            let at = usize::from(*first);
            // Whoever is near to the next is followed by it.
            let is_pair = at > 0 && at + 1 < last && near[at - 1] == 0 && near[at + 1] == 0;
            rest = match (is_pair && reach.pairs != Pairs::OfTheRule, behind) {
                (true, [second, behind @ ..]) => {
                    each(Found::Pair(place(*first), place(*second)));
                    behind
                }
                _ => {
                    each(Found::Hit(place(*first)));
                    behind
                }
            };
        }
    }

    /// Puts those that take part into the columns.
    #[inline(always)]
    fn take(&mut self, hits: &[Hit], passes: impl Fn(usize) -> bool, roles: &Roles, alone: &mut [u64]) {
        let (mut count, mut without_part) = (0, 0usize);
        for (index, hit) in hits.iter().enumerate() {
            let (role, passes) = (roles.of(hit.channel), passes(index));
            let takes_part = passes & has_part(role, hit);
            self.times_ps[count] = hit.time_ps;
            self.places[count] = index as u16;
            self.sources[count] = role.source() as u16;
            count += usize::from(takes_part);
            without_part += usize::from(passes & !takes_part);
        }
        self.count = count;
        if without_part > 0 {
            for (index, hit) in hits.iter().enumerate() {
                let role = roles.of(hit.channel);
                alone[role.source()] += u64::from(passes(index) & !has_part(role, hit));
            }
        }
    }

    /// Counts who stands alone, and lists the others. Returns how many these are; the first and the last are among them.
    #[inline(always)]
    fn count_alone(&mut self, alone: &mut [u64]) -> usize {
        let (last, mut crowded) = (self.count - 1, 1);
        self.crowded[0] = 0;
        let near = self.near_next[..last].windows(2);
        for (index, (near, source)) in (1..).zip(near.zip(&self.sources[1..])) {
            let is_crowded = near[0] | near[1];
            self.crowded[crowded] = index;
            crowded += usize::from(is_crowded);
            alone[usize::from(*source)] += u64::from(is_crowded ^ 1);
        }
        self.crowded[crowded] = last as u16;
        crowded + usize::from(last > 0)
    }
}

/// Whether hits of this role take part at all; those that stand out of order, or are no pulses, do not.
#[inline(always)]
pub(super) fn has_part(role: Role, hit: &Hit) -> bool {
    role.is_anything() & (hit.flags.0 & NO_PART.0 == 0)
}

/// Of times in order: whether the next is within reach, 1 or 0. Differences are not negative, but may be more than 63 bits say.
struct NearNext<'t> {
    times_ps: &'t [i64],
    reach_ps: i64,
    near: &'t mut [u8],
}

impl Wide for NearNext<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let reach_ps = self.reach_ps as u64;
        let pairs = self.times_ps.iter().zip(&self.times_ps[1..]);
        for (near, (time_ps, next_ps)) in self.near.iter_mut().zip(pairs) {
            *near = u8::from(next_ps.wrapping_sub(*time_ps) as u64 <= reach_ps);
        }
    }
}

/// Makes of two different hits an event, of two others single hits.
pub(super) fn settle_pair((first, second): (&Hit, &Hit), roles: &Roles, pairs: Pairs, out: &mut Output) {
    let (one, other) = (roles.of(first.channel), roles.of(second.channel));
    if pairs == Pairs::Events && one.element() != other.element() {
        out.emit_pair([*first, *second], [one.source(), other.source()]);
    } else {
        out.refuse(one.source());
        out.refuse(other.source());
    }
}
