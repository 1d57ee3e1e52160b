//! Decoders and encoders of front-end formats, without a socket or a clock: bytes and time in, units, hits and bytes out.
//!
//! ```text
//!  received bytes ─► unpack ─► units ─► decode ─► hits        (the host's half)
//!  physics ─► emulate ─► emit ─► bytes                        (the board's half)
//! ```
//! One folder per family of boards, each with its wire format, its encoder, and a board that behaves.
//!
//! - `formats`: every family, a line each: [`FORMATS`].
//! - [`format`](mod@format): the interface of a family to the rest of the system.
//! - [`digitizer2`]: CAEN x27xx boards: hits, waveforms, scope events, their control protocol.
//! - [`generic`]: boards without a decoder of their own, whose headers the configuration describes.
//! - [`compass`]: files of CAEN's CoMPASS.
//! - [`abcd`]: files of ABCD.
//! - [`fragment`]: synchronous boards that send a fragment per trigger, in our own format.
//! - [`sitcp`]: SiTCP boards: a stream, and registers over UDP.
//! - [`trigger`]: when emulated boards are triggered, and which triggers are refused.
//! - [`self_triggered`]: what an emulated self-triggered board is to its host.
//! - [`emulated_settings`]: why a board cannot be emulated as its settings ask for.
//! - [`time_origin`]: where the times of a source begin.
//! - `framing`: the counts of a framing that cuts a stream into units.
//! - `asked`: hits in what came and in what did not, as the sender says.
//! - `numbered`: sources whose boards send hits in numbered datagrams.
//! - `gaps`: losses found by sequence numbers.
//! - `unit_decode`: the decoder of units that hold hits of one size.
//! - [`example`](mod@example): the documented example, which `CONTRIBUTING.md` walks through.
//! - `check`: runs a front end as the host does and holds what it counts to the balance equations; behind the feature `harness`.
//! - `damage`: damages what a family's parsers are tried with; behind the feature `harness`.

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
