//! Serves an emulated device with plain memory on a UDP and a TCP port, until it is interrupted.
//!
//!     cargo run -p thalweg-ipbus --example device -- 127.0.0.1:50001

use std::error::Error;
use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use thalweg_ipbus::device::{Buffers, Device, DeviceServer, Registers};

fn main() -> Result<(), Box<dyn Error>> {
    let listen: SocketAddr = std::env::args().nth(1).as_deref().unwrap_or("127.0.0.1:50001").parse()?;
    let device = Device::new(Registers::new(), Buffers { count: 16, bytes: 8000 });
    let server = DeviceServer::new(device, Some(listen), Some(listen))?;
    let address = server.udp_address().ok_or("no socket")?;
    writeln!(std::io::stdout(), "ipbusudp-2.0://{address} and ipbustcp-2.0://{address}")?;
    loop {
        std::thread::sleep(Duration::from_secs(10));
        writeln!(std::io::stdout(), "{:?}", server.device().counts())?;
    }
}
