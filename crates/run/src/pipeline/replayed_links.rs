//! The links of a recorded run, read again in the order of their marks.
//!
//! ```text
//!  raw recording ─► one replay per link ─ the next of each ─► smallest (mark, link) ─► framing ─► Take
//! ```
//! Time is that of the marks: a batch is handed over when everything that was received before it has been, so that the builder sees what it
//! saw in the run; at a [`Pace`], not before it is due. While no link has a free block no time passes: the holder of the blocks is asked to release some
//! ([`ReplayedLinks::is_starved`]).

use std::time::Duration;

use thalweg_data::{
    Counters, Fragments, Frames, Framing, LinkId, Mark, Received, Source, SourceError, SourceId,
};
use thalweg_readout::group::{Inputs, Take, Turn};
use thalweg_record::read::Pace;

/// One link's recording, and what comes next of it.
struct Replayed {
    source: SourceId,
    replay: Box<dyn Source>,
    framing: Box<dyn Framing<Output = Fragments>>,
    next: Frames,
    /// `next` holds something that has not been handed over.
    waiting: bool,
    ended: bool,
    /// True if no block was free for what comes next.
    is_full: bool,
    /// The counts up to the batch that was handed over last: the one looked ahead to is in no slot yet.
    counted: Counters,
    /// The trigger numbers of each of its boards, of a recording with gaps.
    numbers: Option<Vec<BoardNumbers>>,
}

/// The trigger numbers of one board, and how many of them lay in gaps of the recording.
#[derive(Clone, Copy, Debug)]
struct BoardNumbers {
    source: SourceId,
    latest: u64,
    /// True if a gap follows the latest number.
    interrupted: bool,
    lost: u64,
}

/// One link of a recorded run.
pub(crate) struct RecordedLink {
    /// Its number.
    pub(crate) source: SourceId,
    /// Its recording, …
    pub(crate) replay: Box<dyn Source>,
    /// … which was damaged, and has gaps.
    pub(crate) has_gaps: bool,
    /// Its framing.
    pub(crate) framing: Box<dyn Framing<Output = Fragments>>,
}

/// All links of a recorded run.
pub(crate) struct ReplayedLinks {
    links: Vec<Replayed>,
    latest: Mark,
    /// How fast they are read; as fast as possible without one.
    pace: Option<Pace>,
}

impl ReplayedLinks {
    /// These recordings with their framings, in the order of the links.
    pub(crate) fn new(links: Vec<RecordedLink>, pace: Option<Pace>) -> ReplayedLinks {
        let link = |RecordedLink { source, replay, has_gaps, framing }| Replayed {
            source,
            replay,
            framing,
            numbers: has_gaps.then(Vec::new),
            next: Frames::default(),
            waiting: false,
            ended: false,
            is_full: false,
            counted: Counters::default(),
        };
        ReplayedLinks { links: links.into_iter().map(link).collect(), latest: Mark(0), pace }
    }
}

impl ReplayedLinks {
    /// The link whose batch was received first of all that are left, and when that was.
    fn first(&self) -> Option<(usize, Mark)> {
        let waiting = self.links.iter().enumerate().filter(|(_, link)| link.waiting);
        let first = waiting.map(|(index, link)| (link.next.header.mark, index)).min();
        first.map(|(mark, index)| (index, mark))
    }

    fn hand_over(&mut self, index: usize, mark: Mark, taker: &mut dyn Take<Fragments>) {
        self.latest = self.latest.max(mark);
        self.links[index].hand_over(LinkId::from_index(index), taker);
    }
}

impl Inputs<Fragments> for ReplayedLinks {
    // Hands over the one batch that was received first of all that are left.
    fn turn(&mut self, wait: Duration, taker: &mut dyn Take<Fragments>) -> Result<Turn, SourceError> {
        for link in &mut self.links {
            link.look_ahead(wait)?;
        }
        let Some((index, mark)) = self.first() else { return Ok(Turn { links: 0, mark: self.latest }) };
        let early = self.pace.as_ref().map_or(Duration::ZERO, |pace| pace.until(mark));
        if !early.is_zero() {
            std::thread::sleep(wait.min(early));
            return Ok(Turn { links: 0, mark: self.latest });
        }
        self.hand_over(index, mark, taker);
        Ok(Turn { links: 1, mark: self.latest })
    }

    fn is_starved(&self) -> bool {
        let mut open = self.links.iter().filter(|link| !link.ended).peekable();
        open.peek().is_some() && open.all(|link| link.is_full)
    }

    fn lost_by_recording(&self, link: LinkId, source: SourceId) -> u64 {
        let numbers = self.links[link.index()].numbers.iter().flatten();
        numbers.filter(|board| board.source == source).map(|board| board.lost).sum()
    }

    fn finish(&mut self, taker: &mut dyn Take<Fragments>) {
        // What was read ahead was received.
        while let Some((index, mark)) = self.first() {
            self.hand_over(index, mark, taker);
        }
        let mark = self.latest;
        for (index, link) in self.links.iter_mut().enumerate().filter(|(_, link)| !link.ended) {
            link.end(LinkId::from_index(index), mark, taker);
        }
    }

    fn open_links(&self) -> usize {
        self.links.iter().filter(|link| !link.ended).count()
    }

    fn count(&self) -> usize {
        self.links.len()
    }

    fn receive_counters(&self, link: LinkId) -> Counters {
        self.links[link.index()].counted.clone()
    }

    fn drop_counters(&self, link: LinkId) -> Vec<(&'static str, u64)> {
        self.links[link.index()].replay.drop_counters()
    }

    fn unreadable(&self, link: LinkId) -> Option<String> {
        self.links[link.index()].replay.unreadable()
    }

    fn framing(&self, link: LinkId) -> &dyn Framing<Output = Fragments> {
        &*self.links[link.index()].framing
    }

    fn description(&self, link: LinkId) -> String {
        format!("recorded link {}", link.0)
    }
}

impl Replayed {
    /// Makes sure that what comes next is known.
    fn look_ahead(&mut self, wait: Duration) -> Result<(), SourceError> {
        self.is_full = false;
        while !self.waiting && !self.ended {
            self.next.clear();
            let received = self.replay.receive(&mut self.next, wait)?;
            self.is_full = received == Received::Full;
            match received {
                Received::Data | Received::End => self.waiting = true,
                Received::Idle if self.next.begins_anew => self.waiting = true,
                // Time alone: the marks of what comes say it, too.
                Received::Idle => {}
                // Its blocks wait in the builder: others have to come first.
                Received::Full => break,
            }
        }
        Ok(())
    }

    fn hand_over(&mut self, id: LinkId, taker: &mut dyn Take<Fragments>) {
        self.waiting = false;
        self.counted.clone_from(self.replay.counters());
        self.next.header.source = self.source;
        let (mark, has_data, begins_anew) =
            (self.next.header.mark, !self.next.slices.is_empty(), self.next.begins_anew);
        let end = self.next.header.end || !has_data && !begins_anew;
        self.next.header.end = false;
        if has_data {
            let fragments = taker.batch(id);
            fragments.header = self.next.header;
            if begins_anew && self.replay.is_stream() {
                self.framing.finish(&Frames::default(), fragments);
                self.framing.begin_anew();
            }
            let left_over = self.framing.frame(&self.next, fragments);
            self.replay.carry(left_over);
            if let Some(numbers) = &mut self.numbers {
                follow_numbers(numbers, self.next.interrupted, fragments);
            }
            taker.take(id, &self.next);
        }
        self.next.clear();
        if end {
            self.end(id, mark, taker);
        } else if begins_anew && !has_data {
            self.finish(id, mark, false, taker);
            self.framing.begin_anew();
        }
    }

    fn end(&mut self, id: LinkId, mark: Mark, taker: &mut dyn Take<Fragments>) {
        self.ended = true;
        self.counted.clone_from(self.replay.counters());
        self.finish(id, mark, true, taker);
    }

    /// A connection has ended, and with `end` the link.
    fn finish(&mut self, id: LinkId, mark: Mark, end: bool, taker: &mut dyn Take<Fragments>) {
        let mut carried = Frames::default();
        self.replay.give_carried(&mut carried);
        (self.next.header.source, self.next.header.mark) = (self.source, mark);
        (self.next.header.end, self.next.begins_anew) = (end, !end);
        let fragments = taker.batch(id);
        fragments.header = self.next.header;
        self.framing.finish(&carried, fragments);
        taker.take(id, &self.next);
        self.next.clear();
    }
}

/// Follows the boards' trigger numbers over a batch, before which there may be a gap.
fn follow_numbers(numbers: &mut Vec<BoardNumbers>, interrupted: bool, fragments: &Fragments) {
    numbers.iter_mut().for_each(|board| board.interrupted |= interrupted);
    for fragment in &fragments.fragments {
        let (source, trigger) = (fragment.source, fragment.trigger);
        match numbers.iter_mut().find(|board| board.source == source) {
            Some(board) => {
                if std::mem::take(&mut board.interrupted) {
                    board.lost += numbers_between(board.latest, trigger);
                }
                board.latest = trigger;
            }
            None => {
                numbers.push(BoardNumbers { source, latest: trigger, interrupted: false, lost: 0 });
            }
        }
    }
}

/// Returns how many numbers lie between two, of as many bits as both need; 0 where the second lies before the first.
fn numbers_between(first: u64, second: u64) -> u64 {
    let largest = first.max(second);
    let bits = [16, 32].into_iter().find(|bits| largest >> bits == 0).unwrap_or(64);
    let mask = u64::MAX >> (64 - bits);
    let between = second.wrapping_sub(first).wrapping_sub(1) & mask;
    if between > mask / 2 { 0 } else { between }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_data::{Pool, Unit};
    use thalweg_readout::each;

    /// A recording of batches with these marks, each of the given number of bytes.
    struct Recording {
        pool: Pool,
        marks: Vec<u64>,
        counters: Counters,
    }

    impl Source for Recording {
        fn receive(&mut self, frames: &mut Frames, _wait: Duration) -> Result<Received, SourceError> {
            if self.marks.is_empty() {
                frames.header.end = true;
                return Ok(Received::End);
            }
            let mut writer = self.pool.take().expect("a block");
            frames.slices.push(writer.append(&[7; 100]).expect("space"));
            frames.leases.add(writer.lease());
            frames.header.mark = Mark(self.marks.remove(0));
            self.counters.input(Unit::Bytes, 100);
            self.counters.output(Unit::Bytes, 100);
            Ok(Received::Data)
        }

        fn carry(&mut self, _bytes: usize) {}

        fn counters(&self) -> &Counters {
            &self.counters
        }

        fn description(&self) -> String {
            String::new()
        }

        fn is_stream(&self) -> bool {
            true
        }
    }

    #[derive(Default)]
    struct Counted(Counters);

    impl Framing for Counted {
        type Output = Fragments;

        fn frame(&mut self, received: &Frames, _fragments: &mut Fragments) -> usize {
            self.0.input(Unit::Bytes, received.byte_count());
            0
        }

        fn counters(&self) -> &Counters {
            &self.0
        }
    }

    /// Three links, whose six batches were received at these marks.
    fn three_links() -> ReplayedLinks {
        let pool = Pool::new(8, 4096).expect("small");
        let link = |number: u16, marks: &[u64]| -> RecordedLink {
            let recording =
                Recording { pool: pool.clone(), marks: marks.to_vec(), counters: Counters::default() };
            let (replay, framing) = (Box::new(recording), Box::new(Counted::default()));
            RecordedLink { source: SourceId(number), replay, has_gaps: false, framing }
        };
        ReplayedLinks::new(vec![link(0, &[1, 5, 9]), link(1, &[2, 3]), link(2, &[4])], None)
    }

    /// Checks that what each link has received was framed, and that this many batches were.
    #[track_caller]
    fn assert_framed(links: &ReplayedLinks, batches: u64) {
        let mut received = 0;
        for id in (0..3).map(LinkId) {
            let out = links.receive_counters(id).total_output(Unit::Bytes);
            let framed = links.framing(id).counters().total_input(Unit::Bytes);
            assert_eq!(out, framed, "link {} after {batches} batches", id.0);
            received += out;
        }
        assert_eq!(received, 100 * batches);
    }

    #[test]
    fn the_ledger_balances_between_two_batches_on_every_link_of_a_replay() {
        let (mut links, mut batches) = (three_links(), 0);
        while links.open_links() > 0 {
            links
                .turn(
                    Duration::ZERO,
                    &mut each(|_, frames, _| batches += u64::from(!frames.slices.is_empty())),
                )
                .expect("no error");
            assert_framed(&links, batches);
        }
        assert_eq!(batches, 6);
    }

    #[test]
    fn what_was_read_ahead_when_a_replay_is_stopped_is_handed_over() {
        let (mut links, mut marks) = (three_links(), Vec::new());
        let mut taker = each(|_, frames: &Frames, _| {
            marks.extend((!frames.slices.is_empty()).then_some(frames.header.mark.0));
        });
        links.turn(Duration::ZERO, &mut taker).expect("no error");
        links.finish(&mut taker);
        assert_eq!((marks, links.open_links()), (vec![1, 2, 4], 0));
        assert_framed(&links, 3);
    }

    #[test]
    fn numbers_in_a_gap_are_counted_across_the_end_of_their_width() {
        assert_eq!(numbers_between(7, 8), 0);
        assert_eq!(numbers_between(7, 12), 4);
        assert_eq!(numbers_between(65_530, 3), 8);
        assert_eq!(numbers_between(u64::from(u32::MAX), 0), 0);
        assert_eq!(numbers_between(1 << 40, 3 + (1 << 40)), 2);
        assert_eq!(numbers_between(20, 7), 0, "a board that began anew");
    }
}
