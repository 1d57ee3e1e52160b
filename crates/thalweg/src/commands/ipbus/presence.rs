//! Finds boards: the status of one board, and the addresses that have one.

use std::net::SocketAddrV4;
use std::time::Duration;

use anyhow::anyhow;
use thalweg_ipbus::hub::TargetPattern;
use thalweg_ipbus::scan::{Found, scan as ask};
use thalweg_ipbus::wire::Status;

use super::{open, usage};
use crate::arguments::IpbusTarget;
use crate::commands::Ended;
use crate::report::{CommandOutcome, Failure, print};

/// The port that firmware listens at unless another is given.
const USUAL_PORT: u16 = 50_001;
/// Addresses that are asked at most: a network of 16 bits.
const MOST_ADDRESSES: usize = 1 << 16;

/// Prints the status of a board.
pub(super) fn status(target: &IpbusTarget, json: bool) -> Ended {
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
            "{}\nreceived {}\nsent     {}\n",
            short(&status),
            headers(status.received),
            headers(status.sent)
        )
    })?;
    Ok(CommandOutcome::Done)
}

fn short(status: &Status) -> String {
    format!("{} buffers of {} bytes; expects packet {}", status.buffers, status.buffer_bytes, status.next_id)
}

fn addresses_of(networks: &[String]) -> Result<Vec<SocketAddrV4>, Failure> {
    let mut all = Vec::new();
    for text in networks {
        let (network, port) = text.parse::<TargetPattern>().map_err(usage)?.parts();
        if all.len().saturating_add(network.count()) > MOST_ADDRESSES {
            return Err(usage(anyhow!(
                "`{text}` has too many addresses; {MOST_ADDRESSES} are asked at most"
            )));
        }
        let port = port.unwrap_or(USUAL_PORT);
        all.extend(network.addresses().map(|address| SocketAddrV4::new(address, port)));
    }
    Ok(all)
}

/// Asks every address of some networks for a status. Fails when no address answers with one.
pub(super) fn scan(networks: &[String], wait_ms: u64, json: bool) -> Ended {
    let addresses = addresses_of(networks)?;
    let found = ask(&addresses, Duration::from_millis(wait_ms))?;
    let targets: Vec<_> = found
        .targets
        .iter()
        .map(|(address, status)| {
            serde_json::json!({
                "target": address.to_string(),
                "buffer_bytes": status.buffer_bytes,
                "buffers": status.buffers,
                "next_id": status.next_id,
            })
        })
        .collect();
    let value = serde_json::json!({
        "asked": addresses.len(),
        "targets": targets,
        "others": found.others,
        "unsent": found.unsent,
    });
    print(&value, json, |_| lines(&found, addresses.len()))?;
    Ok(if found.targets.is_empty() { CommandOutcome::Failed } else { CommandOutcome::Done })
}

fn lines(found: &Found, asked: usize) -> String {
    let targets = found.targets.iter().map(|(address, status)| {
        let address = address.to_string();
        format!("{address:21}  {}", short(status))
    });
    let others =
        found.others.iter().map(|address| format!("{address}: answers, and not with a status of IPbus 2.0"));
    let unsent = match found.unsent.len() {
        0 => String::new(),
        count => format!(", {count} could not be asked"),
    };
    let last = format!("{} of {asked} addresses answered{unsent}", found.targets.len());
    targets.chain(others).chain([last]).collect::<Vec<_>>().join("\n")
}
