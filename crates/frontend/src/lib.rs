//! Front ends: the data formats of families of boards, and their emulation. No socket, no clock: bytes and time go in;
//! units, hits, fragments and bytes come out.
//!
//! ```text
//!                     framing                    decoder
//!  received bytes ──────┬──────► units ────────────────────────► hits              a host of self-triggered boards
//!                       └──────► fragments ─► the event builder                    a host of triggered boards
//!                       └──────► counters: every byte is passed on, overhead, lost for a reason, or held
//!
//!  settings ─► emulated board ─► hits or answers to triggers ─► emit ─► bytes      the board
//! ```
//!
//! # What a front end is
//!
//! A front end is one folder with one [`Format`](format::Format), its entry in [`FORMATS`]. The entry names the family
//! in the configuration (`format = "digitizer2"`), reads the settings of a source, and creates the parts of the data
//! path from them:
//!
//! - A *framing* ([`Framing`](thalweg_data::Framing)) finds whole units in datagrams or in a stream, and the gaps
//!   between them. It runs in one thread per link and gets all data in order.
//! - A *decoder* ([`Decode`](thalweg_data::Decode)) decodes units to hits. Several decoders may take the units of one
//!   source in turn. Families of triggered boards have none: their framing finds fragments, of which the event builder
//!   reads only trigger and source.
//! - A *control* ([`ControlEntry`](format::ControlEntry)), if the boards have a protocol for that: the family speaks it over a channel,
//!   and the host has the socket.
//! - An *emulated board* sends the data of a real one, at a given rate and with known truth, so that a run needs no
//!   hardware.
//!
//! ```
//! use thalweg_frontend::FORMATS;
//!
//! let example = FORMATS.iter().find(|format| format.word == "example");
//! assert_eq!(example.and_then(|format| format.document), Some("docs/formats/example.md"));
//! ```
//!
//! # Add one
//!
//! A new front end is a folder here and a line in `formats`; no other crate names it. [`example`](mod@example) is the smallest complete
//! one, and `CONTRIBUTING.md` walks through its files in this order:
//!
//! 1. `wire`: the bytes, read with every length checked, and its inverse, `emit`.
//! 2. `settings`: the keys that a `[[source]]` of this format has.
//! 3. `entry`: the [`Format`](format::Format), and the traits behind it: [`HitFormat`](format::HitFormat) for sources of hits,
//!    [`FragmentFormat`](format::FragmentFormat) for triggered boards. Most families implement less: `numbered` and `unit_decode` serve
//!    boards that number their datagrams and send hits of one size, `framing` serves streams.
//! 4. `emulate`: the board. Of boards that are controlled, the control is an entry of its own, as that of [`sitcp`] and [`digitizer2`].
//! 5. `check` and `seeds`: the fuzz targets of the family. `check` in this crate runs a front end as the host does.
//! 6. `tests`: golden bytes, each loss by its reason, and the board from end to end.
//!
//! # Modules
//!
//! What a family is:
//!
//! - `formats`: every family, a line each: [`FORMATS`].
//! - [`format`](mod@format): the interface of a family to the rest of the system.
//!
//! Sources of hits:
//!
//! - [`digitizer2`]: CAEN x27xx boards: hits, waveforms, scope events, their control protocol.
//! - [`generic`]: boards without a decoder of their own, whose headers the configuration describes; also with
//!   fragments.
//! - [`compass`]: files of CAEN's CoMPASS.
//! - [`abcd`]: files of ABCD.
//! - [`example`](mod@example): the documented example, which `CONTRIBUTING.md` walks through.
//!
//! Triggered boards:
//!
//! - [`fragment`]: synchronous boards that send a fragment per trigger, in our own format.
//! - [`sitcp`]: SiTCP boards: a stream, and registers over UDP.
//!
//! What several families use to read:
//!
//! - `framing`: finds units in a stream and counts them; assembles fragments that consist of several datagrams.
//! - `numbered`: the framing of boards that send hits in numbered datagrams.
//! - `gaps`: losses found by sequence numbers.
//! - `asked`: counts hits in received and lost frames by the record of their sender.
//! - `unit_decode`: the decoder of units that hold hits of one size.
//! - [`time_origin`]: the origin of the times of a source.
//!
//! What several families use to emulate:
//!
//! - [`self_triggered`]: the interface of an emulated self-triggered board to its host.
//! - [`trigger`]: when emulated triggered boards are triggered, and which triggers are refused.
//! - [`emulated_settings`]: the error of invalid settings of an emulated board.
//!
//! Tests and fuzzing, behind the feature `harness`:
//!
//! - `check`: runs a front end as the host does and checks that its ledger balances.
//! - `damage`: changes the seeds of a fuzz target.

pub mod abcd;
mod asked;
#[cfg(any(test, feature = "harness"))]
pub mod check;
pub mod compass;
#[cfg(any(test, feature = "harness"))]
pub mod damage;
pub mod digitizer2;
pub mod emulated_settings;
pub mod example;
pub mod format;
mod formats;
pub mod fragment;
mod framing;
mod gaps;
pub mod generic;
mod numbered;
pub mod self_triggered;
pub mod sitcp;
pub mod time_origin;
pub mod trigger;
mod unit_decode;

pub use formats::FORMATS;
