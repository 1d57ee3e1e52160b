//! IPbus boards: their registers, their status, which are there; an emulated one; tables checked.
//!
//! ```text
//!  TARGET: a URI, or an id of --connections ─► Client ─ with a table ─► Board: registers by name
//! ```

mod conformance;
mod device;
mod files;
mod perf;
mod presence;
mod registers;
mod sweep;
mod trace;
mod watch;

use anyhow::anyhow;
use thalweg_ipbus::board::Board;
use thalweg_ipbus::client::Client;
use thalweg_ipbus::table::{Connections, Table, number};

use super::Ended;
use crate::arguments::{Ipbus, IpbusPerf, IpbusTarget, IpbusWhat};
use crate::report::Failure;

/// Makes the failure of an invalid request.
fn usage(error: impl Into<anyhow::Error>) -> Failure {
    Failure::Usage(error.into())
}

pub(crate) fn ipbus(options: &Ipbus, json: bool) -> Ended {
    match &options.what {
        IpbusWhat::Device(device) => device::serve(device, json),
        IpbusWhat::Read { target, registers, words } => registers::read(target, registers, *words, json),
        IpbusWhat::Write { target, assignments } => registers::write(target, assignments, json),
        IpbusWhat::Rmw(change) => registers::change(change, json),
        IpbusWhat::Block(block) => registers::block(block, json),
        IpbusWhat::Dump { target, patterns } => registers::dump(target, patterns, json),
        IpbusWhat::Watch(watched) => watch::watch(watched, json),
        IpbusWhat::Status { target } => presence::status(target, json),
        IpbusWhat::Scan { networks, wait_ms } => presence::scan(networks, *wait_ms, json),
        IpbusWhat::Perf(perf) => measure(perf, json),
        IpbusWhat::Conformance(options) => conformance::conformance(options, json),
        IpbusWhat::Trace(options) => trace::trace(options, json),
        IpbusWhat::Check { files } => files::check(files, json),
    }
}

/// The URI of a target, and the table that was given or that its connection names; without one, an empty table.
fn connection(target: &IpbusTarget) -> Result<(String, Table), Failure> {
    let table = target.table.as_deref().map(Table::open).transpose().map_err(usage)?;
    match &target.connections {
        None => Ok((target.target.clone(), table.unwrap_or_default())),
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
            Ok((connection.uri.clone(), table))
        }
    }
}

fn open(target: &IpbusTarget) -> Result<Board, Failure> {
    let (uri, table) = connection(target)?;
    let client = Client::open(&uri).map_err(|error| match error {
        thalweg_ipbus::client::OpenError::Uri(error) => usage(error),
        other => Failure::Other(other.into()),
    })?;
    Ok(Board::new(client, table))
}

/// Returns where a register is, by its name or its address.
fn address_of(table: &Table, register: &str) -> Result<u32, Failure> {
    let named = || table.node(register).map(|node| node.address);
    number(register).or_else(named).ok_or_else(|| usage(anyhow!(table.no_such(register))))
}

fn measure(options: &IpbusPerf, json: bool) -> Ended {
    if let Some(kind) = options.sweep {
        let (uri, table) = connection(&options.target)?;
        return sweep::sweep(&uri, address_of(&table, &options.register)?, kind, options, json);
    }
    let mut board = open(&options.target)?;
    let address = address_of(board.table(), &options.register)?;
    perf::perf(board.client_mut(), address, options, json)
}
