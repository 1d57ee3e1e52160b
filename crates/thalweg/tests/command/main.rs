//! The real binary, as a user has it: one module per feature.
//!
//! ```text
//!  thalweg … --json ─► exit code, standard output, standard error, files
//! ```

mod applied;
mod boards;
mod channels;
mod coincidence;
mod damage;
mod damaged_input;
mod demo;
mod detector;
mod doctor;
mod events;
mod ipbus;
mod losses;
mod namespaces;
mod network;
mod overload;
mod plot;
mod predict;
mod process;
mod qualify;
mod real_files;
mod recover;
mod refused;
mod replay;
mod replay_gaps;
mod retention;
mod serve;
mod settings;
mod shown;
mod slices;
mod slow_control;
mod slow_disk;
mod stop;
mod storage;
mod strangers;
mod survival;
mod terminal_numbers;
mod threads;
mod units;
mod units_start;
mod units_strangers;
mod units_verify;
mod words;
