//! thalweg as a library: the rooms of the data path, under the names that they have on it.
//!
//! ```text
//!  transport, readout ─► frontend ─► order ─► analysis ─► record      hits of boards that stream
//!                           └──────► build ─────────────► record      events of triggered boards
//! ```
//! - [`data`]: what flows: blocks on loan, batches of frames, hits, fragments and events, the ledger, the traits between rooms.
//! - [`transport`]: bytes between hosts and blocks: UDP, TCP, messages between units.
//! - [`ipbus`]: registers of IPbus boards; beside the path.
//! - [`frontend`]: what boards speak: framings, decoders, encoders, emulated boards.
//! - [`readout`]: an endpoint becomes a source: sockets, files, captures, boards under control, hosted boards.
//! - [`order`]: hits of many sources in one time order.
//! - [`analysis`]: channels, clocks, cuts, coincidence, spectra, pulses.
//! - [`build`]: events by trigger number or time slice, on one machine or several.
//! - [`record`]: run files: written, checked, repaired, replayed.
//! - [`export`]: recorded runs in the formats of other programs.
//! - [`ship`]: copies of run files elsewhere, proved before anything is removed here.
//! - [`monitor`]: the live page, its API, metrics and alarms.
//! - [`qualify`]: what host, switch and disk can do.
//! - [`run`]: a configuration becomes threads, and a run; the only room that wires.
//!
//! Each can be used alone, and none but the last knows its neighbours: what it takes and gives is in [`data`]. Three ways in:
//!
//! **Receive and decode.** A UDP source on loopback, an emulated board that sends to it, and its hits:
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use thalweg::data::{Decode, Frames, Framing, Hits, SourceId};
//! use thalweg::frontend::digitizer2::{self, Decoder, UdpUnpack, emulate};
//! use thalweg::readout::{self, RunClock, host::HostedBoard};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let settings = readout::Settings::new("udp://127.0.0.1:0".parse()?);
//! let readout::Opened { mut source, address, .. } = readout::open(&settings, RunClock::start(), &Arc::default())?;
//! let board = HostedBoard::streaming(emulate::Settings::default(), address.ok_or("a socket has an address")?)?;
//! board.start();
//!
//! let mut unpack = UdpUnpack::new(SourceId(0), 1 << 20);
//! let mut decode = Decoder::new(SourceId(0), &digitizer2::Settings::default())?;
//! let (mut frames, mut units, mut hits) = (Frames::default(), Frames::default(), Hits::default());
//! while hits.hits.len() < 1000 {
//!     source.receive(&mut frames, Duration::from_millis(20))?;
//!     unpack.frame(&frames, &mut units);
//!     decode.decode(&units, &mut hits);
//!     (frames.clear(), units.clear());
//! }
//! for hit in &hits.hits[..5] {
//!     println!("channel {:2} at {:12} ps, energy {:5}", hit.channel, hit.time_ps, hit.energy);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! **Build events.** What three boards have sent, put together by trigger number; one of them has missed a trigger:
//!
//! ```
//! use thalweg::build::{Builder, Settings};
//! use thalweg::data::{Events, Fragments, Pool, SourceId};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pool = Pool::new(3, 64 << 10)?;
//! let mut builder = Builder::new(&Settings::default(), 0..3)?;
//! builder.start_run(1);
//! for source in 0..3 {
//!     let (mut batch, mut block) = (Fragments::default(), pool.take().ok_or("three blocks for three boards")?);
//!     for trigger in (0..4).filter(|trigger| (source, *trigger) != (2, 1)) {
//!         batch.append(&mut block, SourceId(source), trigger, b"what the board has seen");
//!     }
//!     assert_eq!(builder.insert(&batch), batch.fragments.len());
//! }
//! builder.end_run();
//! let mut events = Events::default();
//! while builder.pull(&mut events, 100) {}
//! for (event, fragments) in events.iter() {
//!     println!("{}: {} fragments, {} B, {:?}", event.trigger, fragments.len(), event.bytes, event.closing);
//! }
//! # assert_eq!(events.events.len(), 4);
//! assert_eq!(events.missing_of(&events.events[1]), [SourceId(2)]);
//! # Ok(())
//! # }
//! ```
//!
//! **Read a recording and replay it.** A short run is taken first; its raw bytes give the same hits once more:
//!
//! ```
//! use thalweg::record::{self, RunDirectory, Table, read::HitsReader};
//! use thalweg::run::{self, config::Configuration, supervise::{EndWhen, Watch}};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! let text = format!(
//!     "[[source]]\nname = \"board\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\n\
//!      [record]\ndirectory = {folder:?}\ntables = [\"hits\", \"raw\"]\n"
//! );
//! let configuration = Configuration::parse("example.toml".as_ref(), text)?;
//! let end = EndWhen { hits: Some(10_000), ..EndWhen::default() };
//! let taken = run::run(&configuration, end, &mut Watch::nobody())?;
//!
//! let recorded = RunDirectory::open(&taken.run_directory.ok_or("the run was recorded")?)?;
//! assert!(record::verify(recorded.path())?.ok);
//! for hit in HitsReader::open(&recorded.table(Table::Hits))?.read_all()?.iter().take(5) {
//!     println!("channel {:2} at {:12} ps, energy {:5}", hit.channel, hit.time_ps, hit.energy);
//! }
//! let again = run::replay(recorded.path(), &folder.join("replayed"), &mut Watch::nobody())?;
//! assert_eq!(again.hits_recorded, taken.hits_recorded);
//! # Ok(())
//! # }
//! ```
//!
//! The command `thalweg` is made of the same rooms. Its arguments and its texts are no part of the library: with
//! `default-features = false` neither they nor what they depend on is built.

pub use thalweg_analysis as analysis;
pub use thalweg_build as build;
pub use thalweg_data as data;
pub use thalweg_export as export;
pub use thalweg_frontend as frontend;
pub use thalweg_ipbus as ipbus;
pub use thalweg_monitor as monitor;
pub use thalweg_order as order;
pub use thalweg_qualify as qualify;
pub use thalweg_readout as readout;
pub use thalweg_record as record;
pub use thalweg_run as run;
pub use thalweg_ship as ship;
pub use thalweg_transport as transport;
