use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use thalweg_data::ring::{Upstream, circuit};
use thalweg_data::{BlockWriter, Event, EventFilter, Fragment, Ledger, Mark, Pool, Stage};

use super::*;

/// Numbers from one seed, splitmix64.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % bound
    }
}

/// Keeps every third trigger, and takes some time for a batch.
struct EveryThird(Seeded);

impl EventFilter for EveryThird {
    fn decide(&mut self, events: &Events, keep: &mut [bool]) {
        match self.0.below(4) {
            0 => std::thread::sleep(Duration::from_micros(self.0.below(800))),
            1 => std::thread::yield_now(),
            _ => {}
        }
        for (event, keep) in events.events.iter().zip(keep) {
            *keep = is_third(event.trigger);
        }
    }
}

fn is_third(trigger: u64) -> bool {
    trigger.is_multiple_of(3)
}

/// Never answers for a batch with the trigger 100 or one of its hundreds, as long as nobody lets it.
struct Hanging {
    hangs: Arc<Mutex<Receiver<()>>>,
    hung: SyncSender<()>,
}

impl EventFilter for Hanging {
    fn decide(&mut self, events: &Events, keep: &mut [bool]) {
        if events.events.iter().any(|event| event.trigger > 0 && event.trigger % 100 == 0) {
            let _gone = self.hung.send(());
            let hangs = self.hangs.lock().unwrap_or_else(PoisonError::into_inner);
            let _let_go = hangs.recv();
        }
        keep.fill(true);
    }
}

struct Panicking;

impl EventFilter for Panicking {
    fn decide(&mut self, events: &Events, keep: &mut [bool]) {
        assert!(events.events.iter().all(|event| event.trigger != 0), "as this test wants");
        keep.fill(true);
    }
}

/// A filter with its threads, and the end of the builder.
struct Bench {
    builder: Option<Upstream<Events>>,
    stage: FilterStage,
    signals: Signals,
    workers: Vec<JoinHandle<()>>,
    ledger: Ledger,
}

fn settings(deadline_ms: u64, undecided: Undecided, prescale: u64) -> Settings {
    let (keep, kind) = (String::new(), "of this test".to_owned());
    Settings { keep, kind, workers: 0, deadline_ms, undecided, prescale }
}

impl Bench {
    fn new(filters: Vec<Box<dyn EventFilter>>, settings: &Settings) -> Bench {
        let ledger = Ledger::create(None, &["board".to_owned(), "events".to_owned()]).expect("memory");
        let of = |source, units: &[Unit]| Ledgered::new(ledger.open(Stage::Filter, source, units));
        let slots = FilterSlots {
            events: of(SourceId(1), &[Unit::Events]),
            sources: vec![of(SourceId(0), &[Unit::Fragments, Unit::Bytes])],
        };
        let capacity = 4 * filters.len();
        let (builder, ring) = circuit(8 + capacity, Events::default);
        let made = filters.into_iter().enumerate();
        let made = made.map(|(number, filter)| FilterWorker::new(format!("worker-{number}"), filter));
        let (links, workers): (Vec<_>, Vec<_>) = made.unzip();
        let workers = workers.into_iter().map(|worker| std::thread::spawn(move || worker.run())).collect();
        let boards = (SourceId(0), 1);
        let stage = FilterStage::new(ring, links, settings, capacity, boards, slots, Arc::default());
        Bench { builder: Some(builder), stage, signals: Signals::default(), workers, ledger }
    }

    /// Sends a batch of these triggers; each has a fragment of 8 bytes.
    fn send(&mut self, triggers: std::ops::Range<u64>, block: &mut BlockWriter) {
        let builder = self.builder.as_mut().expect("not ended");
        let mut batch = builder.next_empty().expect("the stage is there");
        fill(&mut batch, triggers, block);
        builder.send(batch);
    }

    /// The next batch: the first trigger, and which events are recorded.
    fn next(&mut self) -> Option<(u64, Vec<bool>)> {
        self.next_selected().map(|(first, selected)| (first, selected.iter().map(Option::is_some).collect()))
    }

    /// The next batch: the first trigger, and why each event is recorded.
    fn next_selected(&mut self) -> Option<(u64, Vec<Option<Selected>>)> {
        let decided = loop {
            match self.stage.receive_wait(Duration::from_secs(60), &self.signals) {
                Some(decided) => break decided,
                None if self.stage.is_finished() => return None,
                None => {}
            }
        };
        let (events, selected) = decided.parts();
        let first = events.events.first().map_or(u64::MAX, |event| event.trigger);
        let selected = selected.to_vec();
        self.stage.give_back(decided);
        Some((first, selected))
    }

    /// Hands a batch to a worker that hangs with it, and lets its deadline pass: the clock of a busy machine would let that of others pass,
    /// too.
    fn give_up(&mut self, says: &Receiver<()>) {
        assert!(self.stage.receive_wait(Duration::ZERO, &self.signals).is_none(), "it is not decided");
        says.recv().expect("it hangs");
        self.stage.expire(Instant::now() + self.stage.deadline);
    }

    fn end(&mut self) {
        self.builder = None;
    }

    fn counters(&self) -> &Counters {
        &self.stage.counters.events
    }

    fn assert_balance(&self) {
        let of_board = self.stage.source_counters(SourceId(0)).expect("one board");
        for (counters, unit) in
            [(self.counters(), Unit::Events), (of_board, Unit::Fragments), (of_board, Unit::Bytes)]
        {
            let out =
                counters.total_output(unit) + counters.total_filtered(unit) + counters.total_lost_any(unit);
            assert_eq!(counters.total_input(unit), out, "{unit}");
        }
        assert_eq!(of_board.total_output(Unit::Fragments), self.counters().total_output(Unit::Events));
        assert_eq!(of_board.total_input(Unit::Bytes), 8 * self.counters().total_input(Unit::Events));
    }
}

fn fill(batch: &mut Events, triggers: std::ops::Range<u64>, block: &mut BlockWriter) {
    for trigger in triggers {
        let slice = block.append(&trigger.to_le_bytes()).expect("the block is long enough");
        let first_fragment = batch.fragments.len() as u32;
        batch.fragments.push(Fragment { trigger, bytes: 8, slices: 1, ..Fragment::default() });
        batch.slices.push(slice);
        batch.leases.add(block.lease());
        batch.events.push(Event { trigger, bytes: 8, first_fragment, fragments: 1, ..Event::default() });
    }
}

fn block(pool: &Pool) -> BlockWriter {
    pool.take().expect("one is free")
}

#[test]
fn with_any_number_of_workers_and_any_delays_the_order_stays_and_the_predicate_decides() {
    for seed in 0..24 {
        let mut random = Seeded(seed);
        let workers = 1 + random.below(5);
        let seeds: Vec<u64> = (0..workers).map(|_| random.below(u64::MAX)).collect();
        let filters = seeds.into_iter().map(|seed| Box::new(EveryThird(Seeded(seed))) as _).collect();
        let mut bench = Bench::new(filters, &settings(60_000, Undecided::Drop, 0));
        let mut builder = bench.builder.take().expect("there");
        let batches: Vec<u64> = (0..100).map(|_| random.below(40)).collect();
        let sent = batches.clone();
        let feeder = std::thread::spawn(move || {
            let pool = Pool::new(1, 1 << 16).expect("small");
            let (mut block, mut next) = (block(&pool), 0);
            for (number, events) in sent.into_iter().enumerate() {
                let mut batch = builder.next_empty().expect("the stage is there");
                fill(&mut batch, next..next + events, &mut block);
                batch.header.mark = Mark(number as u64);
                batch.header.snapshot = (number == 50).then_some(7);
                next += events;
                builder.send(batch);
            }
            pool
        });
        let (mut next, mut kept) = (0, 0);
        for events in batches {
            let (first, keep) = bench.next().expect("as many come out");
            assert!(events == 0 || first == next, "seed {seed}: {first} where {next} is next");
            let expected: Vec<bool> = (next..next + events).map(is_third).collect();
            assert_eq!(keep, expected, "seed {seed}, from {next}");
            kept += keep.iter().filter(|keep| **keep).count() as u64;
            next += events;
        }
        assert_eq!(bench.next(), None, "seed {seed}");
        bench.stage.finish(&bench.signals);
        assert_eq!(bench.signals.failures(), [""; 0]);
        assert_eq!(bench.counters().total_input(Unit::Events), next);
        assert_eq!(bench.counters().total_output(Unit::Events), kept);
        assert_eq!(bench.counters().total_filtered(Unit::Events), next - kept);
        bench.assert_balance();
        let slot = bench.ledger.snapshot().slot(Stage::Filter, SourceId(1)).map(|slot| slot.counters.clone());
        assert_eq!(slot.expect("published").total_output(Unit::Events), kept);
        assert_eq!(feeder.join().expect("it ends").free_count(), 1, "every block came back");
        drop(bench.stage);
        bench.workers.into_iter().for_each(|worker| worker.join().expect("it ends"));
    }
}

/// A bench whose worker hangs, what lets it go, and what says that it hangs.
fn hanging(workers: usize, settings: &Settings) -> (Bench, SyncSender<()>, Receiver<()>) {
    let (let_go, hangs) = sync_channel(workers);
    let (hung, says) = sync_channel(workers);
    let hangs = Arc::new(Mutex::new(hangs));
    let filter = || Box::new(Hanging { hangs: hangs.clone(), hung: hung.clone() }) as _;
    (Bench::new((0..workers).map(|_| filter()).collect(), settings), let_go, says)
}

#[test]
fn a_worker_that_hangs_costs_its_batch_and_nothing_else() {
    for undecided in [Undecided::Keep, Undecided::Drop] {
        let (mut bench, let_go, says) = hanging(2, &settings(600_000, undecided, 0));
        let pool = Pool::new(2, 4096).expect("small");
        let mut unlucky = block(&pool);
        bench.send(100..110, &mut unlucky);
        drop(unlucky);
        bench.give_up(&says);
        let mut others = block(&pool);
        for first in (110..200).step_by(10) {
            bench.send(first..first + 10, &mut others);
        }
        drop(others);
        assert_eq!(bench.next(), Some((100, vec![undecided == Undecided::Keep; 10])));
        for first in (110..200).step_by(10) {
            assert_eq!(bench.next(), Some((first, vec![true; 10])), "the other worker goes on, in order");
        }
        assert_eq!(bench.stage.gauges.lent(), 1, "the worker keeps its batch");
        assert_eq!(pool.free_count(), 1, "and its block alone");
        let counters = bench.counters();
        let (lost, noted) = match undecided {
            Undecided::Keep => (0, 10),
            Undecided::Drop => (10, 0),
        };
        assert_eq!(counters.total_lost(LossReason::Undecided, Unit::Events), lost);
        assert_eq!(counters.total_noted(Noted::Undecided, Unit::Events), noted);
        bench.assert_balance();
        bench.end();
        assert_eq!(bench.next(), None, "the run ends");
        bench.stage.finish(&bench.signals);
        let failures = bench.signals.failures().join("; ");
        assert!(failures.contains("never answered for 10 events"), "{failures}");
        assert!(failures.contains("worker-"), "{failures}");
        let_go.send(()).expect("it hangs");
        while bench.stage.gauges.lent() > 0 {
            bench.stage.receive_wait(Duration::from_secs(60), &bench.signals);
            std::thread::yield_now();
        }
        assert_eq!(pool.free_count(), 2, "an answer gives the blocks back, however late it comes");
    }
}

#[test]
fn while_every_worker_hangs_events_are_undecided_at_once_and_answers_end_that() {
    let (mut bench, let_go, says) = hanging(1, &settings(600_000, Undecided::Drop, 0));
    let pool = Pool::new(1, 4096).expect("small");
    let mut block = block(&pool);
    bench.send(100..101, &mut block);
    bench.give_up(&says);
    assert_eq!(bench.next(), Some((100, vec![false])));
    for trigger in 1..20 {
        bench.send(trigger..trigger + 1, &mut block);
        assert_eq!(bench.next(), Some((trigger, vec![false])), "nobody decides");
    }
    let_go.send(()).expect("it hangs");
    while bench.stage.gauges.lent() > 0 {
        bench.stage.receive_wait(Duration::ZERO, &bench.signals);
        std::thread::yield_now();
    }
    bench.send(20..22, &mut block);
    assert_eq!(bench.next(), Some((20, vec![true; 2])), "it decides again");
    assert_eq!(bench.counters().total_lost(LossReason::Undecided, Unit::Events), 20);
    bench.assert_balance();
    bench.end();
    bench.stage.finish(&bench.signals);
    assert_eq!(bench.signals.failures(), [""; 0], "it owes nothing");
}

#[test]
fn a_worker_is_given_up_when_its_deadline_passes() {
    let (mut bench, _let_go, _says) = hanging(1, &settings(20, Undecided::Keep, 0));
    let pool = Pool::new(1, 4096).expect("small");
    bench.send(100..103, &mut block(&pool));
    let before = Instant::now();
    assert_eq!(bench.next_selected(), Some((100, vec![Some(Selected::Undecided); 3])));
    assert!(before.elapsed() >= Duration::from_millis(20));
}

#[test]
fn a_worker_that_panics_is_named_and_gets_no_more() {
    let filters: Vec<Box<dyn EventFilter>> = vec![Box::new(Panicking), Box::new(Panicking)];
    let mut bench = Bench::new(filters, &settings(60_000, Undecided::Keep, 0));
    let pool = Pool::new(1, 4096).expect("small");
    let mut block = block(&pool);
    for first in (0..50).step_by(5) {
        bench.send(first..first + 5, &mut block);
        assert_eq!(bench.next(), Some((first, vec![true; 5])));
    }
    assert_eq!(bench.counters().total_noted(Noted::Undecided, Unit::Events), 5);
    let failures = bench.signals.failures();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(failures[0].contains("panicked: its 5 events are undecided"), "{failures:?}");
    drop(block);
    assert_eq!(pool.free_count(), 1, "it holds no block");
}

#[test]
fn one_in_so_many_rejected_events_is_kept_and_noted() {
    let filter = Box::new(EveryThird(Seeded(1)));
    let mut bench = Bench::new(vec![filter], &settings(60_000, Undecided::Keep, 4));
    let pool = Pool::new(1, 4096).expect("small");
    let mut block = block(&pool);
    let (mut kept, mut prescaled) = (Vec::new(), Vec::new());
    for first in (0..24).step_by(6) {
        bench.send(first..first + 6, &mut block);
        let (_, selected) = bench.next_selected().expect("there");
        let of = |mark| (first..).zip(selected.clone()).filter(move |(_, own)| *own == Some(mark));
        kept.extend(of(Selected::Kept).map(|(trigger, _)| trigger));
        prescaled.extend(of(Selected::Prescaled).map(|(trigger, _)| trigger));
    }
    assert_eq!(kept, [0, 3, 6, 9, 12, 15, 18, 21]);
    assert_eq!(prescaled, [2, 4, 8], "the hash chooses these of the rejected");
    assert_eq!(bench.counters().total_noted(Noted::Prescaled, Unit::Events), 3);
    bench.assert_balance();
}

#[test]
fn one_filter_and_several_choose_the_same_rejected_events() {
    const TRIGGERS: u64 = 3000;
    let prescaled = |filters: u64, workers: u64, batch: u64| {
        let mut kept: Vec<u64> = Vec::new();
        for own in 0..filters {
            let made = (0..workers).map(|seed| Box::new(EveryThird(Seeded(seed))) as _).collect();
            let mut bench = Bench::new(made, &settings(60_000, Undecided::Keep, 10));
            // A filter per builder unit: each gets ranges of triggers in turn, the first one some of them twice.
            for first in (own * batch..TRIGGERS).step_by((filters * batch) as usize) {
                for _attempt in 0..1 + u64::from(own == 0 && first % 700 == 0) {
                    let pool = Pool::new(1, 4096).expect("small");
                    bench.send(first..(first + batch).min(TRIGGERS), &mut block(&pool));
                    let (_, keep) = bench.next().expect("there");
                    kept.extend((first..).zip(keep).filter(|(_, keep)| *keep).map(|(trigger, _)| trigger));
                }
            }
        }
        kept.sort_unstable();
        kept.dedup();
        kept.retain(|trigger| !is_third(*trigger));
        kept
    };
    let by_one = prescaled(1, 1, 100);
    assert!((130..270).contains(&by_one.len()), "about one in ten of 2000: {}", by_one.len());
    assert_eq!(prescaled(1, 3, 17), by_one, "by several workers");
    assert_eq!(prescaled(2, 1, 50), by_one, "by two filters");
    assert_eq!(prescaled(3, 2, 64), by_one, "by three filters of two workers");
}

#[test]
fn a_slow_filter_holds_the_builder_and_loses_nothing() {
    let (mut bench, let_go, says) = hanging(1, &settings(60_000, Undecided::Drop, 0));
    let pool = Pool::new(1, 4096).expect("small");
    let mut block = block(&pool);
    bench.send(100..101, &mut block);
    let mut sent = 1;
    while let Some(builder) = &mut bench.builder
        && let Some(mut batch) = builder.empty()
    {
        fill(&mut batch, 100 + sent..101 + sent, &mut block);
        builder.send(batch);
        sent += 1;
        assert!(bench.stage.receive_wait(Duration::ZERO, &bench.signals).is_none(), "the first is undecided");
    }
    assert_eq!(sent, 8 + 4, "no batch is left for the builder, which raises BUSY");
    assert_eq!(bench.stage.queue.len(), 4, "the filter takes no more than it may");
    says.recv().expect("it waits");
    let_go.send(()).expect("it waits");
    for trigger in 100..100 + sent {
        assert_eq!(bench.next(), Some((trigger, vec![true])));
    }
    assert_eq!(bench.counters().total_output(Unit::Events), sent);
}
