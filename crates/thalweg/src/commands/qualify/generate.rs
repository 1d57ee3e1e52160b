//! Synchronous sources, and what comes of them: two programs, on one host or on two.
//!
//! ```text
//!  emit:    trigger program ─► K sockets ─► datagrams with run, source, event ─► …
//!  receive: … ─► UdpReceiver ─► Census: by source, missing, doubled, out of order ─► words, JSON
//! ```

use std::fmt::Write as _;
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use anyhow::anyhow;
use thalweg_qualify::device_counters::CountersCommand;
use thalweg_qualify::generator::{Emitted, Kind, Settings, generate, generate_on_hosts, parse_times};
use thalweg_qualify::host::losses_text;
use thalweg_qualify::receipt::{Receipt, UdpReceiverSettings, open, receive_capture, receive_from};
use thalweg_qualify::replay::{self, Replayed};
use thalweg_qualify::rig::StartSkew;
use thalweg_qualify::rig::control::{Opening, Place, serve, source_addresses};
use thalweg_qualify::trial::{Emitter, PayloadSizes, new_run};

use super::device::start_text;
use crate::arguments::{QualifyEmit, QualifyReceive, TriggerProgram};
use crate::commands::Ended;
use crate::report::{CommandOutcome, Failure, check_output, print, si, write_output};
use crate::signals::Signals;
use crate::terminal;

/// Sources that a table names.
const SOURCES_SHOWN: usize = 20;

pub(super) fn emit(options: &QualifyEmit, json: bool) -> Ended {
    if let Some(address) = options.control {
        return control(address, options);
    }
    let Some(to) = options.to else { return Err(Failure::Usage(anyhow!("--to says where sources send to"))) };
    if let Some(file) = &options.capture {
        return send_capture(file, to, options, json);
    }
    let settings = program(options)?;
    if let Some(file) = &options.emitted_times {
        check_output("--emitted-times", file)?;
    }
    let emitted = match options.hosts.is_empty() {
        true => here(options, to, &settings)?,
        false => {
            let opening = Opening {
                run: new_run(),
                to,
                first: 0,
                sources: options.sources,
                all: 0,
                datagram_bytes: options.payload_bytes,
            };
            generate_on_hosts(&options.hosts, &opening, &settings, options.triggers)
                .map_err(|why| Failure::Other(anyhow!(why)))?
        }
    };
    let printed = print(&emitted, json, emitted_text);
    if let Some(file) = &options.emitted_times {
        write_output("--emitted-times", file, &times_text(&emitted.times_s))?;
    }
    printed?;
    Ok(if emitted.is_as_asked() { CommandOutcome::Done } else { CommandOutcome::Failed })
}

/// A line for each event.
fn times_text(times_s: &[f64]) -> String {
    times_s.iter().map(|time_s| format!("{:.3} us\n", time_s * 1e6)).collect()
}

fn here(options: &QualifyEmit, to: SocketAddr, settings: &Settings) -> Result<Emitted, Failure> {
    let from = options.from.unwrap_or(any_address(to));
    let usage = |why: String| Failure::Usage(anyhow!(why));
    let addresses = source_addresses(from, options.sources).map_err(|why| usage(format!("--from {why}")))?;
    let least = options.payload_bytes;
    let sizes = PayloadSizes { least, most: options.payload_most_bytes.unwrap_or(least), seed: options.seed };
    if sizes.most < least {
        return Err(usage(format!("--payload-most-bytes {} is below --payload-bytes {least}", sizes.most)));
    }
    let mut emitter = Emitter::open(new_run(), &addresses, to, sizes)
        .map_err(|error| usage(format!("sources at {}: {error}", addresses[0])))?
        .until(Signals::install()?.stop_flag().clone());
    generate(&mut emitter, settings, options.triggers).map_err(usage)
}

/// Sends what others ask for, until it is interrupted.
fn control(address: SocketAddr, options: &QualifyEmit) -> Ended {
    let listener = TcpListener::bind(address).map_err(|error| {
        Failure::Usage(anyhow!(
            "--control {address}: {error}; choose an address of this host and a free port"
        ))
    })?;
    let from = options.from.unwrap_or(any_address(options.to.unwrap_or(address)));
    let place = Place { from, receiver: options.to.map(|to| to.ip()) };
    let to = place.receiver.map_or("whoever controls them".to_owned(), |receiver| receiver.to_string());
    terminal::notice(&format!("sources are controlled at {}, and send to {to} only", listener.local_addr()?));
    serve(&listener, place, &mut |words| terminal::notice(&words))?;
    Ok(CommandOutcome::Done)
}

fn send_capture(file: &Path, to: SocketAddr, options: &QualifyEmit, json: bool) -> Ended {
    let place = file.display().to_string();
    let input = File::open(file).map_err(|error| Failure::Usage(anyhow!("{place}: {error}")))?;
    let from = options.from.unwrap_or(any_address(to));
    let socket = replay::socket(from, to)
        .map_err(|error| Failure::Usage(anyhow!("a socket from {from} to {to}: {error}")))?;
    let settings = replay::Settings { port: options.capture_port, speed: options.speed };
    let signals = Signals::install()?;
    let replayed = replay::replay(place, Box::new(input), &socket, settings, signals.stop())?;
    print(&replayed, json, replayed_text)?;
    Ok(if replayed.remark.is_empty() { CommandOutcome::Done } else { CommandOutcome::Failed })
}

fn replayed_text(replayed: &Replayed) -> String {
    let Replayed { sent, bytes, failed, others, unread, asked_s, took_s, remark, .. } = replayed;
    let mut text = format!(
        "{sent} datagrams, {bytes} bytes, in {took_s:.3} s; with the gaps of the capture they take {asked_s:.3} s\n\
         not sent     {failed} that the kernel did not take, {} captured in part, {others} of others, {unread} unread, {} bytes of the file damaged",
        replayed.incomplete, replayed.damaged_bytes
    );
    if let Some(lateness) = &replayed.lateness {
        let _ = write!(text, "\nlateness     p50 {:.2} µs, p99 {:.2} µs", lateness.p50_us, lateness.p99_us);
    }
    if !remark.is_empty() {
        let _ = write!(text, "\nNOT as asked: {remark}");
    }
    text
}

/// Any address of this host of the same family, and any port.
fn any_address(like: SocketAddr) -> SocketAddr {
    match like {
        SocketAddr::V4(_) => SocketAddr::from(([0, 0, 0, 0], 0)),
        SocketAddr::V6(_) => SocketAddr::from(([0u16; 8], 0)),
    }
}

fn program(options: &QualifyEmit) -> Result<Settings, Failure> {
    let times = match &options.times_file {
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .map_err(|error| Failure::Usage(anyhow!("{}: {error}", file.display())))?;
            parse_times(&text).map_err(|error| Failure::Usage(anyhow!("{}: {error}", file.display())))?;
            Some(text)
        }
        None => None,
    };
    Ok(Settings {
        program: match (&times, options.program) {
            (Some(_), _) => Kind::Times,
            (None, TriggerProgram::Constant) => Kind::Constant,
            (None, TriggerProgram::Bursts) => Kind::Bursts,
            (None, TriggerProgram::Poisson) => Kind::Poisson,
        },
        rate_hz: options.rate_hz,
        burst_triggers: options.burst_triggers,
        burst_rate_hz: options.burst_rate_hz,
        dead_time_ns: (options.dead_time_us * 1e3) as u64,
        times,
        triggers: Some(options.triggers),
        seed: options.seed,
        ..Settings::default()
    })
}

fn emitted_text(emitted: &Emitted) -> String {
    let Emitted { sources, events, sent, lateness, skew, remark, .. } = emitted;
    let rate = |rate: Option<f64>| rate.map_or("–".to_owned(), |rate| format!("{}Hz", si(rate)));
    let mut text = format!(
        "{events} events of {sources} sources: {sent} datagrams, at {} of {} asked for\n\
         lateness     p50 {:.2} µs, p99 {:.2} µs, largest {:.1} µs\n\
         skew         p50 {:.2} µs from the first source to the last, largest {:.1} µs",
        rate(emitted.sent_rate_hz),
        rate(emitted.asked_rate_hz),
        lateness.p50_us,
        lateness.p99_us,
        lateness.most_us,
        skew.p50_us,
        skew.most_us
    );
    if emitted.start_skew != StartSkew::OneHost {
        let _ = write!(text, "\nstart        {}", start_text(emitted.start_skew));
    }
    if !remark.is_empty() {
        let _ = write!(text, "\nNOT as asked: {remark}");
    }
    text
}

pub(super) fn receive(options: &QualifyReceive, json: bool) -> Ended {
    let receipt = match &options.capture {
        Some(file) => {
            let place = file.display().to_string();
            let input = File::open(file).map_err(|error| Failure::Usage(anyhow!("{place}: {error}")))?;
            receive_capture(place, Box::new(input))?
        }
        None => {
            let settings = UdpReceiverSettings::new(options.listen, options.datagram_bytes as usize);
            let (receiver, address) = open(settings)?;
            let signals = Signals::install()?;
            let device = options.counters_command.clone().map(CountersCommand);
            terminal::notice(&format!("receiving at {address}"));
            receive_from(receiver, Duration::from_secs_f64(options.seconds), device.as_ref(), signals.stop())?
        }
    };
    print(&receipt, json, receipt_text)?;
    Ok(if receipt.ended && receipt.missing == 0 { CommandOutcome::Done } else { CommandOutcome::Failed })
}

fn receipt_text(receipt: &Receipt) -> String {
    if receipt.sources.is_empty() {
        return format!(
            "nothing came of any source; {} other datagrams. Is `thalweg qualify emit` sending here?",
            receipt.others
        );
    }
    let mut text = format!(
        "{:>7}  {:>10}  {:>10}  {:>9}  {:>8}  {:>12}\n",
        "source", "sent", "received", "missing", "doubled", "out of order"
    );
    for source in receipt.sources.iter().take(SOURCES_SHOWN) {
        let sent = source.sent.map_or("unknown".to_owned(), |sent| sent.to_string());
        let bound = if source.sent.is_none() { "≥ " } else { "" };
        let _ = writeln!(
            text,
            "{:>7}  {sent:>10}  {:>10}  {:>9}  {:>8}  {:>12}",
            source.source,
            source.received,
            format!("{bound}{}", source.missing),
            source.doubled,
            source.out_of_order
        );
    }
    if receipt.sources.len() > SOURCES_SHOWN {
        let _ = writeln!(text, "      … {} more; --json has all", receipt.sources.len() - SOURCES_SHOWN);
    }
    let bound = if receipt.ended { "" } else { "at least " };
    let _ = write!(
        text,
        "{} received, {bound}{} missing{}",
        receipt.received,
        receipt.missing,
        receipt.socket_drops.map_or(String::new(), |drops| format!("; {drops} lost in the socket"))
    );
    for hop in &receipt.hops {
        let dropped = hop.dropped.map_or("not asked".to_owned(), |dropped| dropped.to_string());
        let of_all = if hop.is_own { "" } else { ", of everything that passed it" };
        let _ = write!(text, "\n{:<26} {dropped}{of_all}", hop.hop);
    }
    if !receipt.slot.is_empty() {
        let _ = write!(text, "\n{}", receipt.slot);
    }
    if let Some(host) = losses_text(&receipt.host_counters) {
        let _ = write!(text, "\n{host}");
    }
    let silent: Vec<u16> = receipt.sources.iter().filter(|of| of.is_silent()).map(|of| of.source).collect();
    if let Some(first) = silent.first() {
        let _ = write!(text, "\nnothing came of {} sources, the first of which is {first}", silent.len());
    }
    if !receipt.ended {
        text += "\nthe end of some source did not come: what is missing behind its last event is not known";
    }
    text
}
