//! The registers of an emulated board, with faults of its answers.
//!
//! ```text
//!  request ─► RECBE map · SiTCP's own · EEPROM ─► answer with its time ─ lost · late · twice
//!                └ no such address ─► bus error
//! ```
//! The host owns the socket and the clock: it sends each answer at its time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::map::{recbe, sitcp};
use super::wire::{Reply, Request};
use crate::format::DueDatagram;
use crate::sitcp::wire::recbe::{CHANNELS, Mode};

/// Faults, each at every n-th request; 0 means never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// The request does not arrive.
    pub lose_request_every: u32,
    /// The request is executed, but its answer does not arrive.
    pub lose_answer_every: u32,
    /// The answer is late.
    pub late_answer_every: u32,
    /// Delay of a late answer in nanoseconds.
    pub late_ns: u64,
    /// The answer arrives twice.
    pub double_answer_every: u32,
}

const USER_BYTES: usize = recbe::PEDESTALS as usize + 2 * CHANNELS;
/// Addresses between the known ones, which the board's logic does not acknowledge.
const UNKNOWN: std::ops::Range<usize> = recbe::OUTPUT_COINCIDENCE as usize + 1..0x1C;

/// The registers of one board.
#[derive(Clone, Debug)]
pub struct Registers {
    user: [u8; USER_BYTES],
    sitcp: [u8; 256],
    eeprom: [u8; 256],
    faults: Faults,
    requests: u64,
    resets: u64,
}

impl Registers {
    /// Registers of a RECBE board after power-up: suppressed, a window of 32 samples.
    pub fn recbe(board: u8, faults: Faults) -> Registers {
        let mut registers = Registers {
            user: [0; USER_BYTES],
            sitcp: [0; 256],
            eeprom: [0xFF; 256],
            faults,
            requests: 0,
            resets: 0,
        };
        for (address, bytes) in [
            (recbe::SYNTHESIS_DATE, &[14, 6, 4, 1][..]),
            (recbe::FIRMWARE_VERSION, &[1]),
            (recbe::MODE, &[recbe::MODE_SUPPRESSED, 32, 20]),
            (recbe::DISCRIMINATOR_THRESHOLD, &3500u16.to_be_bytes()),
            (sitcp::CONTROL, &[sitcp::CONTROL_NAGLE]),
            (sitcp::HARDWARE_ADDRESS, &[0x02, 0, 0, 0, 0, board]),
            (sitcp::INTERNET_ADDRESS, &[192, 168, 10, 16]),
            (sitcp::TCP_PORT, &24u16.to_be_bytes()),
            (sitcp::RBCP_PORT, &super::wire::PORT.to_be_bytes()),
        ] {
            registers.put(address, bytes);
        }
        for channel in 0..CHANNELS as u32 {
            registers.put(recbe::PEDESTALS + 2 * channel, &200u16.to_be_bytes());
        }
        registers
    }

    /// Sets bytes from an address on, like the board itself; bytes without a register are ignored.
    pub fn put(&mut self, address: u32, bytes: &[u8]) {
        for (byte, address) in bytes.iter().zip(address..=u32::MAX) {
            if let Some(register) = self.register(address) {
                *register = *byte;
            }
        }
    }

    /// One byte, if the register exists.
    pub fn get(&mut self, address: u32) -> Option<u8> {
        self.register(address).map(|register| *register)
    }

    /// The mode in the registers.
    pub fn mode(&self) -> Mode {
        if self.user[recbe::MODE as usize] == recbe::MODE_RAW { Mode::Raw } else { Mode::Suppressed }
    }

    /// The window in samples.
    pub fn window(&self) -> u8 {
        self.user[recbe::WINDOW as usize]
    }

    /// Number of SiTCP resets, each of which closes the data connection.
    pub fn resets(&self) -> u64 {
        self.resets
    }

    /// Executes a request, and appends the answers. An invalid request is ignored, as real boards do.
    pub fn answer(&mut self, datagram: &[u8], now_ns: u64, answers: &mut Vec<DueDatagram>) {
        let Ok(request) = Request::check(datagram) else { return };
        self.requests += 1;
        let faults = self.faults;
        let due = |every: u32| every > 0 && self.requests.is_multiple_of(u64::from(every));
        let (lost, late) = (due(faults.lose_answer_every), due(faults.late_answer_every));
        let twice = due(faults.double_answer_every);
        if due(faults.lose_request_every) {
            return;
        }
        let datagram = self.serve(&request);
        if lost {
            return;
        }
        let at_ns = if late { now_ns.saturating_add(faults.late_ns) } else { now_ns };
        if twice {
            answers.push(DueDatagram { at_ns, datagram: datagram.clone() });
        }
        answers.push(DueDatagram { at_ns, datagram });
    }

    fn serve(&mut self, request: &Request<'_>) -> Vec<u8> {
        let Request { command, id, length, address, data } = *request;
        let mut bytes = data.to_vec();
        let mut bus_error = false;
        for index in 0..usize::from(length) {
            let address = address.wrapping_add(index as u32);
            let byte = match data.get(index) {
                Some(byte) => self.write(address, *byte),
                None => self.get(address).map(|byte| bytes.push(byte)),
            };
            if byte.is_none() {
                bus_error = true;
                break;
            }
        }
        bytes.resize(usize::from(length), 0);
        Reply { command, id, bus_error, length, address, data: &bytes }.datagram()
    }

    fn write(&mut self, address: u32, byte: u8) -> Option<()> {
        let closed = self.eeprom[255] != 0;
        let guarded = sitcp::EEPROM.contains(&address) && address != sitcp::EEPROM_GUARD;
        let register = self.register(address)?;
        if !(guarded && closed) {
            *register = byte;
        }
        if address == sitcp::CONTROL && byte & sitcp::CONTROL_RESET != 0 {
            self.resets += 1;
        }
        Some(())
    }

    fn register(&mut self, address: u32) -> Option<&mut u8> {
        let low = (address & 0xFF) as usize;
        match address {
            sitcp::BASE.. => self.sitcp.get_mut(low),
            _ if sitcp::EEPROM.contains(&address) => self.eeprom.get_mut(low),
            _ if UNKNOWN.contains(&(address as usize)) => None,
            _ => self.user.get_mut(address as usize),
        }
    }
}
