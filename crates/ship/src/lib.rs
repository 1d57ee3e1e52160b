//! Copies of run files at other hosts and disks, made while data taking goes on, and called copies only when they are proved.
//!
//! ```text
//!  run directory ─► Shipment ─► Destination ═ mounted path ─────────► FarFiles ─► Disk
//!     whole batches    │                    ═ connection ─► receiver ─► FarFiles ─► Disk
//!                      ▼
//!         state per destination and file ─► may a table be removed here?
//! ```
//! A range of a file is written, forced to the disk, dropped from the cache, read back, and its CRC-32C held against what was sent; then
//! it counts. A table that grows is a whole Arrow stream at the far side, too, at every moment.
//!
//! - [`amount`]: bytes, batches and rows.
//! - [`digests`]: CRC-32C, adler32 and md5 of a file.
//! - [`names`]: names that come over the wire.
//! - [`message`]: what two ends say to each other.
//! - [`frame`]: how that goes over a connection.
//! - [`handshake`]: versions and token, before any file.
//! - [`disk`]: the file system of the far side.
//! - [`far_record`]: what the far side knows of a file.
//! - `run_locks`: one shipper for a run at a time: [`RunLocks`].
//! - `file_turns`: whose turn a file is, among several connections.
//! - [`destination`]: where files are shipped to.
//! - [`far_files`]: the files at the far side.
//! - [`local_file`]: a file here, while it is shipped.
//! - [`shipment`]: one file on its way to one destination.
//! - [`address`]: addresses of destinations.
//! - `link`: one TCP connection that a program can end.
//! - [`connection`]: a far `thalweg receive` as a destination.
//! - [`session`]: the receiver's side of one connection.
//! - [`receiver`]: `thalweg receive`.
//! - [`survey`]: what is not copied yet, for programs that do not ship: [`survey::Survey`].
//! - [`windows`]: when files are shipped.
//! - [`settings`]: `[ship]` of the configuration.
//! - [`run_state`]: what is known here of the copies of a run.
//! - `copies`: may a table be removed here: [`CopyRule`].
//! - [`run_files`]: the files of a run that are to be shipped.
//! - [`contents`]: what the files here hold, counted.
//! - `known_digests`: digests that somebody here has computed.
//! - [`ledger`]: the stage `ship`: recorded, proved, waiting, refused.
//! - [`manifest`]: the list of a run's files at a destination.
//! - `on_shipped`: the command that is run when a run is complete there.
//! - [`ownership`]: one shipper for a run, over all hosts that mount its directory.
//! - [`progress`]: how far shipping is.
//! - `http_link`: HTTP with a store, with the feature `object-store`.
//! - `upload`: what is known here of an upload that is under way.
//! - [`s3`]: a bucket as a destination.
//! - [`webdav`]: a collection of a WebDAV server as a destination.
//! - `route`: the way to one destination, and its threads.
//! - [`shipper`]: `thalweg ship`.
//! - `cuts`: in tests, real connections that are cut at any byte.
//! - `simulation`: in tests, both sides over a disk that forgets.
//! - `error`: what can go wrong: [`ShipError`].

pub mod address;
pub mod amount;
pub mod connection;
pub mod contents;
mod copies;
#[cfg(test)]
mod cuts;
pub mod destination;
pub mod digests;
pub mod disk;
mod error;
pub mod far_files;
pub mod far_record;
mod file_turns;
pub mod frame;
pub mod handshake;
#[cfg(feature = "object-store")]
mod http_link;
mod known_digests;
pub mod ledger;
mod link;
pub mod local_file;
pub mod manifest;
pub mod message;
pub mod names;
mod on_shipped;
pub mod ownership;
pub mod progress;
pub mod receiver;
mod route;
pub mod run_files;
mod run_locks;
pub mod run_state;
#[cfg(feature = "object-store")]
pub mod s3;
pub mod session;
pub mod settings;
pub mod shipment;
pub mod shipper;
#[cfg(test)]
mod simulation;
pub mod survey;
#[cfg(feature = "object-store")]
mod upload;
#[cfg(feature = "object-store")]
pub mod webdav;
pub mod windows;

pub use copies::CopyRule;
pub use error::{Refusal, ShipError};
pub use run_locks::{RunGuard, RunLocks};
pub use settings::Settings;
