use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use thalweg_data::ring::{Upstream, circuit};
use thalweg_data::{Answers, BlockWriter, Event, EventFilter, Fragment, Ledger, Mark, Pool, Stage};

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
    fn decide(&mut self, events: &Events, answers: &mut Answers<'_>) {
        match self.0.below(4) {
            0 => std::thread::sleep(Duration::from_micros(self.0.below(800))),
            1 => std::thread::yield_now(),
            _ => {}
        }
        answers.give_each(answers.due_of(events).iter().map(|event| is_third(event.trigger)));
    }
}

fn is_third(trigger: u64) -> bool {
    trigger.is_multiple_of(3)
}

/// Never answers for the trigger 100 or one of its hundreds, as long as nobody lets it.
#[derive(Clone)]
struct Hanging {
    hangs: Arc<Mutex<Receiver<()>>>,
    hung: SyncSender<()>,
}

impl Hanging {
    fn hang(&self) {
        let _gone = self.hung.send(());
        let hangs = self.hangs.lock().unwrap_or_else(PoisonError::into_inner);
        let _let_go = hangs.recv();
    }
}

fn is_hundredth(event: &Event) -> bool {
    event.trigger > 0 && event.trigger.is_multiple_of(100)
}

impl EventFilter for Hanging {
    fn decide(&mut self, events: &Events, answers: &mut Answers<'_>) {
        for event in answers.due_of(events) {
            if is_hundredth(event) {
                self.hang();
            }
            answers.give(true);
        }
    }
}

/// The same, but it answers for all events at the end.
struct AllAtOnce(Hanging);

impl EventFilter for AllAtOnce {
    fn decide(&mut self, events: &Events, answers: &mut Answers<'_>) {
        if answers.due_of(events).iter().any(is_hundredth) {
            self.0.hang();
        }
        answers.give_each(vec![true; answers.due().len()]);
    }
}

/// Panics at trigger 7.
struct Panicking;

impl EventFilter for Panicking {
    fn decide(&mut self, events: &Events, answers: &mut Answers<'_>) {
        for event in answers.due_of(events) {
            assert!(event.trigger != 7, "as this test wants");
            answers.give(true);
        }
    }
}

/// Answers for the next event when the test lets it, and says so.
struct Stepping(Receiver<()>, SyncSender<()>);

impl EventFilter for Stepping {
    fn decide(&mut self, events: &Events, answers: &mut Answers<'_>) {
        for _event in answers.due_of(events) {
            let _gone = self.0.recv();
            answers.give(true);
            let _gone = self.1.send(());
        }
    }
}

/// Answers for all events but the last two of a batch.
struct Forgetful;

impl EventFilter for Forgetful {
    fn decide(&mut self, _events: &Events, answers: &mut Answers<'_>) {
        answers.give_each(vec![true; answers.due().len().saturating_sub(2)]);
    }
}

/// Takes longer than a deadline of a millisecond for some events, and panics at none.
struct Stalling(Seeded);

impl EventFilter for Stalling {
    fn decide(&mut self, events: &Events, answers: &mut Answers<'_>) {
        for event in answers.due_of(events) {
            if self.0.below(50) == 0 {
                std::thread::sleep(Duration::from_micros(500 + self.0.below(3000)));
            }
            answers.give(is_third(event.trigger));
        }
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
        self.let_deadline_pass(says);
    }

    /// Sees how far the worker came before it hung, and lets the deadline pass.
    fn let_deadline_pass(&mut self, says: &Receiver<()>) {
        says.recv().expect("it hangs");
        let now = Instant::now();
        self.stage.expire(now);
        self.stage.expire(now + self.stage.deadline);
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
    let (filter, let_go, says) = hanging_filter(workers);
    (Bench::new((0..workers).map(|_| Box::new(filter.clone()) as _).collect(), settings), let_go, says)
}

fn hanging_filter(workers: usize) -> (Hanging, SyncSender<()>, Receiver<()>) {
    let (let_go, hangs) = sync_channel(workers);
    let (hung, says) = sync_channel(workers);
    (Hanging { hangs: Arc::new(Mutex::new(hangs)), hung }, let_go, says)
}

#[test]
fn a_worker_that_hangs_costs_one_event_and_nothing_else() {
    for undecided in [Undecided::Keep, Undecided::Drop] {
        let (mut bench, let_go, says) = hanging(2, &settings(600_000, undecided, 0));
        let pool = Pool::new(2, 4096).expect("small");
        let mut unlucky = block(&pool);
        bench.send(95..105, &mut unlucky);
        drop(unlucky);
        bench.give_up(&says);
        let mut others = block(&pool);
        for first in (105..195).step_by(10) {
            bench.send(first..first + 10, &mut others);
        }
        drop(others);
        let mark = (undecided == Undecided::Keep).then_some(Selected::Undecided);
        let expected =
            (95..105).map(|trigger| if trigger == 100 { mark } else { Some(Selected::Kept) }).collect();
        assert_eq!(bench.next_selected(), Some((95, expected)), "the other worker decides those behind it");
        for first in (105..195).step_by(10) {
            assert_eq!(bench.next(), Some((first, vec![true; 10])), "the other worker goes on, in order");
        }
        assert_eq!(bench.stage.gauges.lent(), 1, "the worker keeps its batch");
        assert_eq!(pool.free_count(), 1, "and its block alone");
        let counters = bench.counters();
        let (lost, noted) = match undecided {
            Undecided::Keep => (0, 1),
            Undecided::Drop => (1, 0),
        };
        assert_eq!(counters.total_lost(LossReason::Undecided, Unit::Events), lost);
        assert_eq!(counters.total_noted(Noted::Undecided, Unit::Events), noted);
        bench.assert_balance();
        bench.end();
        assert_eq!(bench.next(), None, "the run ends");
        bench.stage.finish(&bench.signals);
        let failures = bench.signals.failures().join("; ");
        assert!(failures.contains("never answered for the event of trigger 100"), "{failures}");
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
fn a_filter_that_answers_at_the_end_costs_its_batch_and_no_third_worker() {
    let (filter, _let_go, says) = hanging_filter(2);
    let made = (0..3).map(|_| Box::new(AllAtOnce(filter.clone())) as _).collect();
    let mut bench = Bench::new(made, &settings(600_000, Undecided::Keep, 0));
    let pool = Pool::new(1, 4096).expect("small");
    let mut block = block(&pool);
    bench.send(95..105, &mut block);
    bench.give_up(&says);
    bench.give_up(&says);
    assert_eq!(bench.next_selected(), Some((95, vec![Some(Selected::Undecided); 10])));
    bench.send(105..110, &mut block);
    assert_eq!(bench.next_selected(), Some((105, vec![Some(Selected::Kept); 5])), "the third worker goes on");
    bench.assert_balance();
}

#[test]
fn a_worker_that_goes_on_from_event_to_event_is_not_given_up() {
    let ((go_on, steps), (done, says)) = (sync_channel(1), sync_channel(1));
    let mut bench = Bench::new(vec![Box::new(Stepping(steps, done))], &settings(600_000, Undecided::Drop, 0));
    let pool = Pool::new(1, 4096).expect("small");
    bench.send(0..6, &mut block(&pool));
    assert!(bench.stage.receive_wait(Duration::ZERO, &bench.signals).is_none(), "it is not decided");
    let mut now = Instant::now();
    for _event in 0..6 {
        go_on.send(()).expect("it waits");
        says.recv().expect("it goes on");
        now += bench.stage.deadline - Duration::from_secs(1);
        bench.stage.expire(now);
    }
    assert_eq!(bench.next(), Some((0, vec![true; 6])), "each event has the whole deadline");
    bench.assert_balance();
}

#[test]
fn an_answer_that_comes_late_counts_while_its_batch_has_not_left() {
    let ((first, let_first_go, first_says), (second, let_second_go, second_says)) =
        (hanging_filter(1), hanging_filter(1));
    let made: Vec<Box<dyn EventFilter>> = vec![Box::new(first), Box::new(second)];
    let mut bench = Bench::new(made, &settings(600_000, Undecided::Drop, 0));
    let pool = Pool::new(1, 4096).expect("small");
    let mut block = block(&pool);
    bench.send(100..102, &mut block);
    bench.send(200..203, &mut block);
    assert!(bench.stage.receive_wait(Duration::ZERO, &bench.signals).is_none(), "none is decided");
    first_says.recv().expect("it hangs");
    second_says.recv().expect("it hangs");
    let deadline = bench.stage.deadline;
    let (number, sheet) =
        bench.stage.workers[1].expire(Instant::now() + deadline, deadline).expect("its deadline has passed");
    queued(&mut bench.stage.queue, bench.stage.first, number).expect("it is there").give_up(sheet);
    assert_eq!(bench.stage.queue[1].batch.verdicts, [Verdict::Undecided, Verdict::Open, Verdict::Open]);
    let_second_go.send(()).expect("it hangs");
    while bench.stage.queue[1].state != State::Decided {
        assert!(
            bench.stage.receive_wait(Duration::ZERO, &bench.signals).is_none(),
            "the first is not decided"
        );
        std::thread::yield_now();
    }
    let_first_go.send(()).expect("it hangs");
    assert_eq!(bench.next(), Some((100, vec![true; 2])));
    assert_eq!(bench.next(), Some((200, vec![true; 3])), "all are decided");
    bench.assert_balance();
}

#[test]
fn an_event_for_which_a_filter_does_not_answer_is_undecided() {
    let mut bench = Bench::new(vec![Box::new(Forgetful)], &settings(60_000, Undecided::Keep, 0));
    let pool = Pool::new(1, 4096).expect("small");
    bench.send(0..5, &mut block(&pool));
    let (kept, undecided) = (Some(Selected::Kept), Some(Selected::Undecided));
    assert_eq!(bench.next_selected(), Some((0, vec![kept, kept, kept, undecided, undecided])));
    bench.assert_balance();
}

#[test]
fn with_deadlines_that_pass_at_random_every_event_is_decided_as_it_should_or_undecided() {
    const BATCHES: u64 = 60;
    let mut all_undecided = 0;
    for seed in 0..12 {
        let mut random = Seeded(seed);
        let workers = 1 + random.below(4);
        let made = (0..workers).map(|_| Box::new(Stalling(Seeded(random.below(u64::MAX)))) as _).collect();
        let mut bench = Bench::new(made, &settings(1, Undecided::Keep, 0));
        let pool = Pool::new(1, 1 << 16).expect("small");
        let mut block = block(&pool);
        let mut undecided = 0;
        for first in (0..BATCHES * 20).step_by(20) {
            bench.send(first..first + 20, &mut block);
            let (found, selected) = bench.next_selected().expect("as many come out");
            assert_eq!((found, selected.len()), (first, 20), "seed {seed}");
            for (trigger, selected) in (first..).zip(selected) {
                match selected {
                    Some(Selected::Undecided) => undecided += 1,
                    decided => assert_eq!(decided.is_some(), is_third(trigger), "seed {seed}, {trigger}"),
                }
            }
        }
        assert_eq!(bench.counters().total_noted(Noted::Undecided, Unit::Events), undecided, "seed {seed}");
        all_undecided += undecided;
        bench.assert_balance();
        drop(block);
        bench.end();
        while bench.next().is_some() || bench.stage.gauges.lent() > 0 {
            bench.stage.receive_wait(Duration::from_millis(1), &bench.signals);
        }
        assert_eq!(pool.free_count(), 1, "every block came back");
        drop(bench.stage);
        bench.workers.into_iter().for_each(|worker| worker.join().expect("it ends"));
    }
    assert!(all_undecided > 0, "some deadlines pass");
}

#[test]
fn while_every_worker_hangs_events_are_undecided_at_once_and_answers_end_that() {
    let (mut bench, let_go, says) = hanging(1, &settings(600_000, Undecided::Drop, 0));
    let pool = Pool::new(1, 4096).expect("small");
    let mut block = block(&pool);
    bench.send(99..103, &mut block);
    bench.give_up(&says);
    assert_eq!(bench.next(), Some((99, vec![true, false, false, false])), "nobody decides those behind it");
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
    assert_eq!(bench.counters().total_lost(LossReason::Undecided, Unit::Events), 22);
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
    let mut undecided = Vec::new();
    for first in (0..50).step_by(5) {
        bench.send(first..first + 5, &mut block);
        let (_, selected) = bench.next_selected().expect("there");
        let marked = (first..).zip(selected).filter(|(_, own)| *own != Some(Selected::Kept));
        undecided.extend(marked);
    }
    assert_eq!(undecided, [(7, Some(Selected::Undecided))], "the other worker decides all others");
    assert_eq!(bench.counters().total_noted(Noted::Undecided, Unit::Events), 1);
    let failures = bench.signals.failures();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(failures[0].contains("panicked at the event of trigger 7, which is undecided"), "{failures:?}");
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
