//! Whatever sources do, every trigger that was answered leaves once, no fragment in another's place, and the ledger balances
//! after every call.

use std::collections::BTreeMap;

use proptest::prelude::*;
use thalweg_build::{Budget, Builder, Full, Incomplete, Settings};
use thalweg_data::{Closing, Events, Fragment, Fragments, LossReason, Mark, Pool, SourceId, Unit};

/// What happens to a builder.
#[derive(Clone, Debug)]
enum Step {
    /// The trigger fires so often, and the sources of the mask answer, each with so many slices.
    Fire {
        triggers: u8,
        mask: u8,
        slices: u16,
    },
    /// A source sends what is waiting in its link.
    Send {
        source: u8,
        fragments: u8,
    },
    /// The link swaps the next two fragments, doubles the next, loses it, or a board makes a number up.
    Swap {
        source: u8,
    },
    Double {
        source: u8,
    },
    Lose {
        source: u8,
    },
    Jump {
        source: u8,
        by: u32,
    },
    /// A board resets: it counts on from 0.
    Reset {
        source: u8,
    },
    Wait {
        ms: u8,
    },
    End {
        source: u8,
    },
    Pull {
        most: u8,
    },
}

fn step(sources: u8) -> impl Strategy<Value = Step> {
    let source = 0..sources;
    prop_oneof![
        8 => (1..12u8, any::<u8>(), prop_oneof![9 => Just(1u16), 1 => 0..5u16])
            .prop_map(|(triggers, lost, slices)| Step::Fire { triggers, mask: lost | lost.rotate_left(3) | 3, slices }),
        16 => (source.clone(), 1..20u8).prop_map(|(source, fragments)| Step::Send { source, fragments }),
        2 => source.clone().prop_map(|source| Step::Swap { source }),
        1 => source.clone().prop_map(|source| Step::Double { source }),
        1 => source.clone().prop_map(|source| Step::Lose { source }),
        1 => (source.clone(), any::<u32>()).prop_map(|(source, by)| Step::Jump { source, by }),
        1 => source.clone().prop_map(|source| Step::Reset { source }),
        4 => (0..15u8).prop_map(|ms| Step::Wait { ms }),
        1 => source.prop_map(|source| Step::End { source }),
        8 => (1..40u8).prop_map(|most| Step::Pull { most }),
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    let incomplete = prop_oneof![
        Just(Incomplete::Partial),
        Just(Incomplete::Drop),
        Just(Incomplete::Wait),
        Just(Incomplete::Stop)
    ];
    let full = prop_oneof![Just(Full::Close), Just(Full::Hold)];
    let bits = prop_oneof![Just(8u32), Just(16), Just(32), Just(64)];
    (incomplete, full, bits, any::<bool>(), prop_oneof![Just(16usize), Just(64)], any::<bool>()).prop_map(
        |(incomplete, full, trigger_bits, ordered, depth, stated)| Settings {
            incomplete,
            full,
            trigger_bits,
            ordered,
            depth,
            age_ms: 20,
            first_trigger: stated.then_some(0),
            chained_slices: Some(24),
            ..Settings::default()
        },
    )
}

/// What a board has sent and its link not yet delivered: the number it gave, its slices, and a name to know it by.
type Sent = (u64, u16, u64);

/// The detector, the builder, and what is known of both.
struct World {
    settings: Settings,
    builder: Builder,
    pool: Pool,
    links: Vec<Vec<Sent>>,
    /// What each board adds to the true number of a trigger, since its reset.
    offsets: Vec<u64>,
    next_trigger: u64,
    next_name: u64,
    mark: u64,
    offered: Vec<u64>,
    built: BTreeMap<u64, u64>,
    /// Their sum, which is held against the ledger at every step.
    fragments_built: u64,
    seen: BTreeMap<u64, Closing>,
    last: Option<u64>,
}

impl World {
    fn new(settings: &Settings, sources: u16) -> World {
        let mut builder = Builder::new(settings, 0..sources).expect("possible");
        builder.start_run(1);
        World {
            settings: settings.clone(),
            builder,
            pool: Pool::new(2000, 256).expect("small"),
            links: vec![Vec::new(); usize::from(sources)],
            offsets: vec![0; usize::from(sources)],
            next_trigger: 0,
            next_name: 0,
            mark: 0,
            offered: vec![0; usize::from(sources)],
            built: BTreeMap::new(),
            fragments_built: 0,
            seen: BTreeMap::new(),
            last: None,
        }
    }

    fn number(&self, trigger: u64, source: usize) -> u64 {
        let number = trigger.wrapping_sub(self.offsets[source]);
        number & (u64::MAX >> (64 - self.settings.trigger_bits))
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Fire { triggers, mask, slices } => self.fire(triggers, mask, slices),
            Step::Send { source, fragments } => self.send(usize::from(source), usize::from(fragments)),
            Step::Swap { source } => {
                if let [one, other, ..] = &mut self.links[usize::from(source)][..] {
                    std::mem::swap(one, other);
                }
            }
            Step::Double { source } => {
                let link = &mut self.links[usize::from(source)];
                if let Some(first) = link.first().copied() {
                    link.insert(0, first);
                }
            }
            Step::Lose { source } => {
                let link = &mut self.links[usize::from(source)];
                link.drain(..link.len().min(1));
            }
            Step::Jump { source, by } => {
                if let Some(first) = self.links[usize::from(source)].first_mut() {
                    *first = (first.0.wrapping_add(u64::from(by)), first.1, self.next_name);
                    self.next_name += 1;
                }
            }
            Step::Reset { source } => self.offsets[usize::from(source)] = self.next_trigger,
            Step::Wait { ms } => {
                self.mark += u64::from(ms) * 1_000_000;
                self.builder.advance(Mark(self.mark));
            }
            Step::End { source } => self.builder.end(SourceId(u16::from(source))),
            Step::Pull { most } => {
                self.pull(usize::from(most));
            }
        }
        self.check();
    }

    fn fire(&mut self, triggers: u8, mask: u8, slices: u16) {
        for _ in 0..triggers {
            for source in (0..self.links.len()).filter(|source| mask >> source & 1 == 1) {
                let number = self.number(self.next_trigger, source);
                self.links[source].push((number, slices, self.next_name));
                self.next_name += 1;
            }
            self.next_trigger += 1;
        }
    }

    /// Every slice says whose it is, of which number and name, and which part.
    fn send(&mut self, source: usize, fragments: usize) {
        let Some(mut writer) = self.pool.take() else { return };
        let mut batch = Fragments::default();
        batch.header.mark = Mark(self.mark);
        let count = fragments.min(self.links[source].len());
        for (number, slices, name) in &self.links[source][..count] {
            if writer.remaining() < 24 * 5 {
                writer = self.pool.take().expect("many");
            }
            for part in 0..*slices {
                let mut bytes = [0; 24];
                bytes[..8].copy_from_slice(&number.to_le_bytes());
                bytes[8..16].copy_from_slice(&name.to_le_bytes());
                (bytes[16], bytes[17]) = (source as u8, part as u8);
                batch.slices.push(writer.append(&bytes).expect("fits"));
            }
            batch.leases.add(writer.lease());
            let id = SourceId(source as u16);
            let (bytes, ticks) = (24 * u32::from(*slices), *name);
            batch.fragments.push(Fragment { trigger: *number, ticks, bytes, source: id, slices: *slices });
        }
        let taken = self.builder.insert(&batch);
        assert!(taken <= count);
        self.offered[source] += taken as u64;
        self.links[source].drain(..taken);
    }

    fn pull(&mut self, most: usize) -> bool {
        let mut events = Events::default();
        let any = self.builder.pull(&mut events, most);
        assert!(events.events.len() <= most && any != events.events.is_empty());
        let mut fragments = events.fragments_with_slices();
        for event in &events.events {
            let sources = self.links.len() as u32;
            assert_eq!(event.fragments + event.missing, sources);
            assert!(event.fragments > 0);
            assert_eq!(event.closing == Closing::Complete, event.missing == 0);
            assert!(self.seen.insert(event.trigger, event.closing).is_none(), "{} twice", event.trigger);
            if self.settings.ordered {
                assert!(self.last.is_none_or(|last| last < event.trigger), "order");
                self.last = Some(event.trigger);
            }
            let mut before = None;
            let mut bytes = 0;
            for _ in 0..event.fragments {
                let (fragment, slices) = fragments.next().expect("as many as the event says");
                assert!(before.replace(fragment.source).is_none_or(|before| before < fragment.source));
                assert!(!events.missing_of(event).contains(&fragment.source));
                assert_eq!(fragment.trigger, event.trigger);
                bytes += u64::from(fragment.bytes);
                let all = u64::MAX >> (64 - self.settings.trigger_bits);
                for (part, slice) in slices.iter().enumerate() {
                    let read = events.leases.bytes(*slice);
                    let number = u64::from_le_bytes(read[..8].try_into().expect("eight"));
                    let name = u64::from_le_bytes(read[8..16].try_into().expect("eight"));
                    assert_eq!((number & all, name), (event.trigger & all, fragment.ticks), "mixed");
                    assert_eq!((u16::from(read[16]), usize::from(read[17])), (fragment.source.0, part));
                    assert_eq!(slice.continues(), part + 1 < slices.len());
                }
                *self.built.entry(fragment.ticks).or_default() += 1;
                self.fragments_built += 1;
            }
            assert_eq!(bytes, event.bytes);
        }
        any
    }

    fn check(&mut self) {
        let (mut held, mut held_bytes) = (0, 0);
        for source in self.builder.sources() {
            let counters = self.builder.counters(SourceId(source)).clone();
            for unit in [Unit::Fragments, Unit::Bytes] {
                let right = counters.total_output(unit) + counters.total_lost_any(unit) + counters.held(unit);
                assert_eq!(counters.total_input(unit), right, "{unit} of source {source}");
            }
            assert_eq!(counters.total_input(Unit::Fragments), self.offered[usize::from(source)]);
            let wire = self.builder.wire_counters(SourceId(source));
            let missing = wire.total_lost(LossReason::MissingFragment, Unit::Fragments);
            assert_eq!(wire.total_input(Unit::Fragments), wire.total_output(Unit::Fragments) + missing);
            let used = wire.total_output(Unit::Fragments) - wire.total_gap_filled(Unit::Fragments);
            assert_eq!(used, counters.total_output(Unit::Fragments));
            held += counters.held(Unit::Fragments);
            held_bytes += counters.held(Unit::Bytes);
        }
        let standing = self.builder.standing();
        assert_eq!(held_bytes, standing.held_bytes);
        assert!(standing.span <= self.settings.depth as u64 && standing.open_events as u64 <= standing.span);
        assert!(held <= (self.links.len() * (standing.open_events + 64)) as u64);
        let open = self.builder.open_events() as u64;
        let events = self.builder.events_counters();
        assert_eq!(events.held(Unit::Events), open);
        assert_eq!(events.total_output(Unit::Events), self.seen.len() as u64);
        let sources = self.builder.sources();
        let output = |source| self.builder.counters(SourceId(source)).total_output(Unit::Fragments);
        assert_eq!(self.fragments_built, sources.map(output).sum::<u64>());
    }

    fn finish(&mut self) {
        self.builder.end_run();
        while self.builder.stop().is_none() && self.pull(7) {
            self.check();
        }
        if self.builder.stop().is_none() {
            assert!(self.builder.is_empty());
            assert_eq!((self.builder.held_bytes(), self.builder.standing().blocks), (0, 0));
            assert_eq!(self.pool.free_count(), self.pool.block_count(), "every block is back");
        }
        assert!(self.built.values().all(|times| *times == 1), "no fragment twice");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_ledger_balances_and_nothing_is_mixed(
        settings in settings(),
        (sources, steps) in (1..6u8).prop_flat_map(|n| (Just(n), prop::collection::vec(step(n), 1..150))),
    ) {
        let mut world = World::new(&settings, u16::from(sources));
        steps.iter().for_each(|step| world.step(step));
        world.finish();
    }

    /// Without faults of the network every event is complete, in whatever order links deliver.
    #[test]
    fn links_that_lose_nothing_give_whole_events(
        bits in prop_oneof![Just(8u32), Just(16), Just(64)],
        first in any::<u64>(),
        ordered in any::<bool>(),
        sends in prop::collection::vec((0..4u8, 1..30u8), 50..400),
    ) {
        let settings = Settings {
            depth: 64, trigger_bits: bits, ordered, incomplete: Incomplete::Wait, ..Settings::default()
        };
        let mut world = World::new(&settings, 4);
        let first = first >> 3;
        world.next_trigger = first;
        for (source, fragments) in &sends {
            world.fire(1, 0xF, 1);
            world.send(usize::from(*source), usize::from(*fragments));
            world.check();
            world.pull(10);
            world.check();
        }
        // Readers that come back for the rest.
        while world.links.iter().any(|link| !link.is_empty()) {
            (0..4).for_each(|source| world.send(source, 5));
            while world.pull(10) {}
        }
        world.finish();
        prop_assert_eq!(world.seen.len(), sends.len());
        prop_assert!(world.seen.values().all(|closing| *closing == Closing::Complete));
    }
}

/// Payload that waits stays within what the plan printed, when readers ask before they read.
#[test]
fn held_bytes_stay_within_the_budget() {
    let settings = Settings {
        depth: 256,
        memory_bytes: 64 << 10,
        source_bytes: Some(8 << 10),
        incomplete: Incomplete::Wait,
        ..Settings::default()
    };
    let mut builder = Builder::new(&settings, 0..8).expect("possible");
    builder.start_run(1);
    let pool = Pool::new(2048, 4096).expect("small");
    let mut next = [0u64; 8];
    for turn in 0..4000u64 {
        // Source 7 is slow.
        let source = (turn % 8) as u16;
        if source == 7 && turn % 64 != 7 || !builder.wants(SourceId(source)) {
            continue;
        }
        let mut writer = pool.take().expect("held bytes are bounded, so blocks are");
        let mut batch = Fragments::default();
        batch.slices.push(writer.append(&[1; 1000]).expect("fits"));
        batch.leases.add(writer.lease());
        let trigger = next[usize::from(source)];
        batch.fragments.push(Fragment {
            trigger,
            source: SourceId(source),
            slices: 1,
            ..Fragment::default()
        });
        next[usize::from(source)] += builder.insert(&batch) as u64;
        let mut events = Events::default();
        while builder.pull(&mut events, 8) {
            events.clear();
        }
        assert!(builder.held_bytes() <= Budget::of(&settings, 8).payload + 8 * 1000);
    }
    assert!(next[7] > 50 && next[0] <= next[7] + 9, "{next:?}");
}
