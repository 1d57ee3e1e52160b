//! Registers of IPbus targets, read and written; their status; an emulated target; tables checked.
//!
//! ```text
//!  TARGET: a URI, or an id of --connections ─► Client ─ with a table ─► Board: registers by name
//! ```

use std::path::Path;

use anyhow::{Context, anyhow};
use serde::Serialize;
use thalweg_ipbus::board::Board;
use thalweg_ipbus::client::Client;
use thalweg_ipbus::device::{Buffers, Device, DeviceServer, Registers};
use thalweg_ipbus::faults::Faults;
use thalweg_ipbus::table::{Connections, Mode, Node, Table, number};

use super::{Ended, ipbus_perf};
use crate::arguments::{Ipbus, IpbusDevice, IpbusPerf, IpbusTarget, IpbusWhat};
use crate::report::{Failure, Outcome, print};
use crate::signals::Signals;
use crate::terminal;

/// What was asked for is none.
fn usage(error: impl Into<anyhow::Error>) -> Failure {
    Failure::Usage(error.into())
}

pub(crate) fn ipbus(options: &Ipbus, json: bool) -> Ended {
    match &options.what {
        IpbusWhat::Device(device) => serve(device, json),
        IpbusWhat::Read { target, registers, words } => read(target, registers, *words, json),
        IpbusWhat::Write { target, assignments } => write(target, assignments, json),
        IpbusWhat::Status { target } => status(target, json),
        IpbusWhat::Perf(perf) => measure(perf, json),
        IpbusWhat::Check { files } => check(files, json),
    }
}

/// A target with the table that was given, or that its connection names; without one, an empty table.
fn open(target: &IpbusTarget) -> Result<Board, Failure> {
    let table = target.table.as_deref().map(Table::open).transpose().map_err(usage)?;
    let (uri, table) = match &target.connections {
        None => (target.target.clone(), table.unwrap_or_default()),
        Some(list) => {
            let connections = Connections::open(list).map_err(usage)?;
            let Some(connection) = connections.find(&target.target) else {
                let ids: Vec<&str> = connections.all().iter().map(|one| one.id.as_str()).collect();
                return Err(usage(anyhow!(
                    "there is no `{}` in {list}; there are {}",
                    target.target,
                    ids.join(", ")
                )));
            };
            let table = table.map_or_else(|| connection.open_table(), Ok).map_err(usage)?;
            (connection.uri.clone(), table)
        }
    };
    let client = Client::open(&uri).map_err(|error| match error {
        thalweg_ipbus::client::OpenError::Uri(error) => usage(error),
        other => Failure::Other(other.into()),
    })?;
    Ok(Board::new(client, table))
}

/// A register and what it holds.
#[derive(Serialize)]
struct Register {
    register: String,
    words: Vec<u32>,
}

fn words_of(board: &mut Board, register: &str, words: Option<usize>) -> Result<Vec<u32>, Failure> {
    if let Some(address) = number(register) {
        let mut block = vec![0; words.unwrap_or(1)];
        let mut queue = board.client_mut().queue();
        queue.read_block(address, &mut block);
        queue.dispatch()?;
        return Ok(block);
    }
    let is_block = |node: &Node| !matches!(node.mode, Mode::Single | Mode::Hierarchical);
    match (words, board.table().node(register).is_some_and(is_block)) {
        (None, false) => Ok(vec![board.read(register)?]),
        (words, _) => {
            let mut block = vec![0; words.unwrap_or(1)];
            board.read_block(register, 0, &mut block)?;
            Ok(block)
        }
    }
}

fn read(target: &IpbusTarget, registers: &[String], words: Option<usize>, json: bool) -> Ended {
    let mut board = open(target)?;
    let mut all = Vec::new();
    for register in registers {
        all.push(Register { register: register.clone(), words: words_of(&mut board, register, words)? });
    }
    let line = |one: &Register| {
        let words: Vec<String> = one.words.iter().map(|word| format!("{word:#010x}")).collect();
        format!("{} = {}\n", one.register, words.join(" "))
    };
    print(&all, json, |all| all.iter().map(line).collect())?;
    Ok(Outcome::Done)
}

fn write(target: &IpbusTarget, assignments: &[String], json: bool) -> Ended {
    let mut all = Vec::new();
    for assignment in assignments {
        let wrong =
            || usage(anyhow!("`{assignment}`: write REGISTER=VALUE, as in CONTROL.ENABLE=1 or 0x10=0xFF"));
        let (register, value) = assignment.split_once('=').ok_or_else(wrong)?;
        all.push((register, number(value).ok_or_else(wrong)?));
    }
    let mut board = open(target)?;
    for (register, value) in &all {
        match number(register) {
            Some(address) => board.client_mut().write(address, *value)?,
            None => board.write(register, *value)?,
        }
    }
    print(&all.len(), json, |count| format!("{count} register(s) written"))?;
    Ok(Outcome::Done)
}

fn status(target: &IpbusTarget, json: bool) -> Ended {
    let mut board = open(target)?;
    let status = board.client_mut().status()?;
    let value = serde_json::json!({
        "buffer_bytes": status.buffer_bytes,
        "buffers": status.buffers,
        "next_id": status.next_id,
        "history": status.history,
        "received": status.received,
        "sent": status.sent,
    });
    print(&value, json, |_| {
        let headers = |all: [u32; 4]| all.map(|header| format!("{header:08x}")).join(" ");
        format!(
            "{} buffers of {} bytes; expects packet {}\nreceived {}\nsent     {}\n",
            status.buffers,
            status.buffer_bytes,
            status.next_id,
            headers(status.received),
            headers(status.sent)
        )
    })?;
    Ok(Outcome::Done)
}

fn measure(options: &IpbusPerf, json: bool) -> Ended {
    let mut board = open(&options.target)?;
    let address = match number(&options.register) {
        Some(address) => address,
        None => match board.table().node(&options.register) {
            Some(node) => node.address,
            None => return Err(usage(anyhow!("there is no node `{}`", options.register))),
        },
    };
    ipbus_perf::perf(board.client_mut(), address, options, json)
}

fn check(files: &[std::path::PathBuf], json: bool) -> Ended {
    let (mut found, mut failed, mut nodes) = (Vec::new(), false, 0);
    for file in files {
        match tables_of(file) {
            Ok(tables) => {
                for table in tables {
                    nodes += table.nodes().len();
                    found.extend(table.warnings().iter().map(ToString::to_string));
                    found.extend(table.overlaps().iter().map(ToString::to_string));
                }
            }
            Err(error) => {
                failed = true;
                found.push(error.to_string());
            }
        }
    }
    let value = serde_json::json!({ "ok": !failed, "nodes": nodes, "found": found });
    print(&value, json, |_| {
        let last = match (failed, found.len()) {
            (true, _) => "cannot be read".to_owned(),
            (false, 0) => format!("{nodes} nodes, nothing odd"),
            (false, odd) => format!("{nodes} nodes, {odd} odd"),
        };
        found.iter().map(|line| format!("{line}\n")).chain([last]).collect()
    })?;
    Ok(if failed { Outcome::Failed } else { Outcome::Done })
}

/// The tables of a connection file, or the one that a file is.
fn tables_of(file: &Path) -> Result<Vec<Table>, thalweg_ipbus::table::TableError> {
    let is_connections = std::fs::read_to_string(file).is_ok_and(|text| text.contains("<connections"));
    if !is_connections {
        return Ok(vec![Table::open(file)?]);
    }
    let connections = Connections::open(&file.to_string_lossy())?;
    connections.all().iter().map(thalweg_ipbus::table::Connection::open_table).collect()
}

fn serve(options: &IpbusDevice, json: bool) -> Ended {
    if options.udp.is_none() && options.tcp.is_none() {
        return Err(usage(anyhow!("a device needs --udp ADDRESS:PORT, --tcp ADDRESS:PORT or both")));
    }
    let registers = match &options.table {
        None => Registers::new(),
        Some(file) => Table::open(file).and_then(|table| Registers::of_table(&table)).map_err(usage)?,
    };
    let buffers = Buffers { count: options.buffers, bytes: options.buffer_bytes };
    let signals = Signals::install().context("signals")?;
    let thousandths = |percent: f64| (10.0 * percent).round() as u32;
    let faults = Faults {
        lost: thousandths(options.lost),
        doubled: thousandths(options.doubled),
        delayed: thousandths(options.delayed),
        most_delay: std::time::Duration::from_micros(options.most_delay_us),
    };
    let device = Device::new(registers, buffers);
    let server = DeviceServer::on_bad_network(device, options.udp, options.tcp, (options.seed, faults))?;
    let udp = server.udp_address().map(|place| format!("ipbusudp-2.0://{place}"));
    let tcp = server.tcp_address().map(|place| format!("ipbustcp-2.0://{place}"));
    for place in [&udp, &tcp].into_iter().flatten() {
        terminal::notice(&format!("serving {place}"));
    }
    while !signals.stop_requested() {
        signals.report_hangup();
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let counts = server.device().counts();
    let value = serde_json::json!({
        "done": counts.done,
        "out_of_turn": counts.out_of_turn,
        "statuses": counts.statuses,
        "resent": counts.resent,
        "forgotten": counts.forgotten,
        "refused": counts.refused,
    });
    print(&value, json, |_| {
        format!(
            "{} packets done, {} out of turn, {} refused; {} replies sent once more, {} asked for in vain",
            counts.done, counts.out_of_turn, counts.refused, counts.resent, counts.forgotten
        )
    })?;
    Ok(Outcome::Done)
}
