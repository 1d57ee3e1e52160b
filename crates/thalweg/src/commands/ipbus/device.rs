//! An emulated board that is served until the command is interrupted.
//!
//! ```text
//!  table ─► Registers ─► Device ─► DeviceServer ─ a bad network ─► clients
//! ```

use anyhow::{Context, anyhow};
use thalweg_ipbus::device::{Buffers, Device, DeviceServer, Registers};
use thalweg_ipbus::faults::Faults;
use thalweg_ipbus::table::Table;

use super::usage;
use crate::arguments::IpbusDevice;
use crate::commands::Ended;
use crate::report::{CommandOutcome, print};
use crate::signals::Signals;
use crate::terminal;

/// Serves a board.
pub(super) fn serve(options: &IpbusDevice, json: bool) -> Ended {
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
    Ok(CommandOutcome::Done)
}
