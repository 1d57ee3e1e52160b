//! Run files written, damaged, recovered and read by stock readers.

mod arbitrary_bytes;
mod coincidences;
mod cut_anywhere;
mod disk_full;
mod events;
mod events_cut;
mod example_coincidences;
mod example_events;
mod example_losses;
mod example_run;
mod faults;
mod kept_hits;
mod losses;
mod parts;
mod ranges;
mod raw_replay;
mod recover_damaged;
mod retention;
mod round_trip;
mod two_disks;
