//! The capacities of a run's rings, batches and pools: the plan adds them up, and the threads are made with them.

use thalweg_data::RangeRecord;

/// Batches in each circuit. Eight of a quarter of a megabyte bridge 25 ms at 40 M hits/s.
pub(crate) const BATCHES: usize = 8;
/// A batch is passed on at this size: large enough to spread its fixed costs, small enough for the second-level cache.
pub(crate) const BATCH_BYTES: u64 = 256 << 10;
/// Hits that a batch is made for: a full batch of the smallest hits, 8 bytes each.
pub(crate) const HITS_PER_BATCH: usize = BATCH_BYTES as usize / 8;
/// Hits in a batch after time order: half of a second-level cache.
pub(crate) const OUTPUT_HITS: usize = 32 * 1024;
/// Batches on their way to the process thread: time order gives several at once, and neither thread is to wait for the other then.
pub(crate) const SELECTED_BATCHES: usize = 8;
/// Batches of events between builder and recorder.
pub(crate) const EVENT_BATCHES: usize = 8;
/// The size at which a batch of events is passed on, and the events in it at most.
pub(crate) const EVENT_BATCH_BYTES: u64 = 1 << 20;
pub(crate) const EVENTS_PER_BATCH: usize = 256;
/// Batches in the event filter for each of its workers: one that it decides, one that is next, and two that wait for one before them.
pub(crate) const FILTER_BATCHES: usize = 4;
/// Triggers that may wait for the emulated boards.
pub(crate) const TRIGGERS_WAITING: usize = 1 << 16;
/// Receive calls that may wait for the raw writer, of each thread that receives.
pub(crate) const RAW_BATCHES: usize = 64;
/// Blocks for what units receive from each other.
pub(crate) const UNIT_BLOCK_BYTES: usize = 256 << 10;
/// Blocks of the side of the trigger, which receives words of one peer.
pub(crate) const GATE_BLOCKS: usize = 8;
/// Most records of a unit that wait for the thread of the lists.
pub(crate) const MOST_RANGES_WAITING: usize = 16_384;
/// Memory for them: those that wait, those that the thread has in its hands, and those that wait for their batch.
pub(crate) const RANGES_BYTES: u64 = (3 * MOST_RANGES_WAITING * size_of::<RangeRecord>()) as u64;

/// Blocks of the replay of a source of hits that had so many. What the stages hold lay in so many blocks of the run, and lies in up to two of the
/// replay for each of them, since these are filled without gaps. A run that finds no block waits, and hits pass on with time; in a replay time
/// passes with what is read, so it has to find a block wherever the run did.
pub(crate) const fn replayed_blocks(blocks: usize) -> usize {
    2 * blocks + 2
}
