//! A board driven through its registers.
//!
//! ```text
//!  RegisterControl: get, set ─► Client ─ datagram ─► board
//!                                 ▲ answers: lost ones asked for again, late and double ones put aside
//! ```
//! Registers are named as in the RECBE's table (`mode`, `window`, …) or by address: `0x1c` is one byte, `0x1c:2` two, the
//! highest first. Values are numbers, decimal or after `0x`; `mode` also takes `raw` and `suppressed`.

use std::time::Duration;

use thalweg_data::{ControlError, DeviceControl, Parameter};

use super::map::{recbe, sitcp};
use super::{Client, Counts, Done, Operation, Settings};
use crate::format::{BoardControl, ControlChannel, register_number};

/// Registers by name: address, bytes.
const NAMES: [(&str, u32, u8); 13] = [
    ("synthesis_date", recbe::SYNTHESIS_DATE, 4),
    ("firmware_version", recbe::FIRMWARE_VERSION, 1),
    ("mode", recbe::MODE, 1),
    ("window", recbe::WINDOW, 1),
    ("delay", recbe::DELAY, 1),
    ("sum_threshold", recbe::SUM_THRESHOLD, 2),
    ("trigger_link", recbe::TRIGGER_LINK, 1),
    ("time_over_threshold", recbe::TIME_OVER_THRESHOLD, 1),
    ("output_coincidence", recbe::OUTPUT_COINCIDENCE, 1),
    ("discriminator_threshold", recbe::DISCRIMINATOR_THRESHOLD, 2),
    ("busy", recbe::BUSY, 1),
    ("busy_width", recbe::BUSY_WIDTH, 1),
    ("control", sitcp::CONTROL, 1),
];

/// Those of them that cannot be written.
const READ_ONLY: [u32; 2] = [recbe::SYNTHESIS_DATE, recbe::FIRMWARE_VERSION];

/// The registers of one board.
pub struct RegisterControl {
    channel: Box<dyn ControlChannel>,
    client: Client,
}

/// Where a register lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Register {
    address: u32,
    bytes: u8,
}

impl Register {
    fn parse(path: &str) -> Result<Register, String> {
        let path = path.trim();
        if let Some((_, address, bytes)) = NAMES.iter().find(|(name, ..)| *name == path) {
            return Ok(Register { address: *address, bytes: *bytes });
        }
        let (address, bytes) = path.split_once(':').unwrap_or((path, "1"));
        let address = register_number(address).and_then(|address| u32::try_from(address).ok());
        let bytes = bytes.parse().ok().filter(|bytes| (1..=8).contains(bytes));
        match (address, bytes) {
            (Some(address), Some(bytes)) => Ok(Register { address, bytes }),
            _ => {
                let names: Vec<&str> = NAMES.iter().map(|(name, ..)| *name).collect();
                Err(format!(
                    "`{path}` is no register; write an address such as 0x1c or 0x1c:2 (bytes, 1 to 8), or one of {}",
                    names.join(", ")
                ))
            }
        }
    }

    /// The value's bytes, the highest first.
    fn bytes_of(self, value: &str) -> Result<Vec<u8>, String> {
        let number = match (self.address, value.trim()) {
            (recbe::MODE, "raw") => Some(u64::from(recbe::MODE_RAW)),
            (recbe::MODE, "suppressed") => Some(u64::from(recbe::MODE_SUPPRESSED)),
            (_, value) => register_number(value),
        };
        let room = u32::from(self.bytes) * 8;
        match number.filter(|number| room >= 64 || *number >> room == 0) {
            Some(number) => Ok(number.to_be_bytes()[8 - usize::from(self.bytes)..].to_vec()),
            None => Err(format!("`{value}` is no number of {} bytes, decimal or after 0x", self.bytes)),
        }
    }

    /// Whether writing it twice does the same as writing it once: not where a bit of one of its bytes starts something.
    fn is_idempotent(self) -> bool {
        let last = self.address.saturating_add(u32::from(self.bytes) - 1);
        ![sitcp::CONTROL, recbe::TRIGGER_LINK].iter().any(|once| (self.address..=last).contains(once))
    }
}

impl RegisterControl {
    /// The registers of the board behind a channel. Nothing is sent yet.
    pub fn new(channel: Box<dyn ControlChannel>, settings: Settings) -> RegisterControl {
        RegisterControl { channel, client: Client::new(settings) }
    }

    /// Reads bytes from an address on, at most 255.
    ///
    /// # Errors
    /// When the board refuses or does not answer.
    pub fn read(&mut self, address: u32, length: u8) -> Result<Vec<u8>, ControlError> {
        self.perform(Operation::Read { address, length }).map(|done| done.data)
    }

    /// Writes bytes from an address on. What must not be done twice is read back, not repeated, when its answer is lost.
    ///
    /// # Errors
    /// As for `read`.
    pub fn write(&mut self, address: u32, data: &[u8], idempotent: bool) -> Result<Done, ControlError> {
        self.perform(Operation::Write { address, data: data.to_vec(), idempotent })
    }

    /// What was asked, repeated, and put aside.
    pub fn counts(&self) -> Counts {
        self.client.counts()
    }

    fn failed(&self, message: impl ToString) -> ControlError {
        ControlError { board: self.channel.place().to_owned(), message: message.to_string() }
    }

    /// Every operation ends: the client gives up by itself, or with the channel.
    fn perform(&mut self, operation: Operation) -> Result<Done, ControlError> {
        let begun = self.client.begin(operation, self.channel.now_ns());
        begun.map_err(|error| self.failed(error))?;
        loop {
            let now_ns = self.channel.now_ns();
            if let Some(request) = self.client.transmit(now_ns) {
                // One that the network refuses is as good as lost: it is sent again.
                let _lost = self.channel.send(&request);
            }
            if let Some(outcome) = self.client.outcome() {
                return outcome.map_err(|error| self.failed(error));
            }
            let due_ns = self.client.due_ns().unwrap_or(now_ns);
            match self.channel.receive(Duration::from_nanos(due_ns.saturating_sub(now_ns))) {
                Ok(Some(datagram)) => self.client.receive(datagram),
                Ok(None) => {}
                Err(cause) => {
                    self.client.abandon();
                    return Err(self.failed(cause));
                }
            }
        }
    }

    fn register(&self, path: &str) -> Result<Register, ControlError> {
        Register::parse(path).map_err(|message| self.failed(message))
    }

    fn bytes_of(&self, register: Register, path: &str, value: &str) -> Result<Vec<u8>, ControlError> {
        register.bytes_of(value).map_err(|message| self.failed(format!("`{path}`: {message}")))
    }
}

impl DeviceControl for RegisterControl {
    fn get(&mut self, path: &str) -> Result<String, ControlError> {
        let register = self.register(path)?;
        let bytes = self.read(register.address, register.bytes)?;
        let value = bytes.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        Ok(match (register.address, value as u8) {
            (recbe::MODE, recbe::MODE_RAW) => "raw".to_owned(),
            (recbe::MODE, recbe::MODE_SUPPRESSED) => "suppressed".to_owned(),
            _ => value.to_string(),
        })
    }

    fn set(&mut self, path: &str, value: &str) -> Result<(), ControlError> {
        let register = self.register(path)?;
        let bytes = self.bytes_of(register, path, value)?;
        self.write(register.address, &bytes, register.is_idempotent()).map(drop)
    }

    fn list(&mut self) -> Result<Vec<Parameter>, ControlError> {
        let each = |(name, address, _): &(&str, u32, u8)| Parameter {
            path: (*name).to_owned(),
            // A board of another kind has not all of them.
            value: self.get(name).ok(),
            is_settable: !READ_ONLY.contains(address),
        };
        Ok(NAMES.iter().map(each).collect())
    }
}

impl BoardControl for RegisterControl {
    fn check(&mut self, path: &str, value: &str) -> Result<(), ControlError> {
        self.bytes_of(self.register(path)?, path, value).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::{Command, Reply};
    use super::super::{Faults, Registers};
    use super::*;
    use crate::format::DueDatagram;

    /// A board behind a channel that fails for a while.
    struct Failing {
        failures: u32,
        registers: Registers,
        answers: Vec<DueDatagram>,
    }

    impl ControlChannel for Failing {
        fn place(&self) -> &str {
            "rbcp://board"
        }

        fn now_ns(&self) -> u64 {
            0
        }

        fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
            self.registers.answer(bytes, 0, &mut self.answers);
            Ok(())
        }

        fn receive(&mut self, _: Duration) -> Result<Option<&[u8]>, String> {
            if self.failures > 0 {
                self.failures -= 1;
                return Err("the interface is down".to_owned());
            }
            Ok(self.answers.last().map(|answer| answer.datagram.as_slice()))
        }

        fn pause(&mut self, _: Duration) {}
    }

    #[test]
    fn a_request_that_the_channel_fails_does_not_block_the_next() {
        let registers = Registers::recbe(7, Faults::default());
        let channel = Failing { failures: 2, registers, answers: Vec::new() };
        let mut control = RegisterControl::new(Box::new(channel), Settings::default());
        for _ in 0..2 {
            let error = control.get("window").expect_err("no channel").to_string();
            assert!(error.contains("the interface is down"), "{error}");
        }
        assert_eq!(control.get("window").expect("it is up again"), "32");
    }

    /// A board whose acknowledgements of writes are lost.
    struct Unacknowledged {
        now_ns: u64,
        registers: Registers,
        answers: Vec<DueDatagram>,
        answer: Vec<u8>,
    }

    impl ControlChannel for Unacknowledged {
        fn place(&self) -> &str {
            "rbcp://board"
        }

        fn now_ns(&self) -> u64 {
            self.now_ns
        }

        fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
            self.registers.answer(bytes, self.now_ns, &mut self.answers);
            self.answers.retain(|answer| {
                Reply::check(&answer.datagram).is_ok_and(|reply| reply.command == Command::Read)
            });
            Ok(())
        }

        fn receive(&mut self, wait: Duration) -> Result<Option<&[u8]>, String> {
            let Some(answer) = self.answers.pop() else {
                self.now_ns += wait.as_nanos() as u64;
                return Ok(None);
            };
            self.answer = answer.datagram;
            Ok(Some(&self.answer))
        }

        fn pause(&mut self, _: Duration) {}
    }

    #[test]
    fn a_write_that_has_a_register_among_others_that_must_not_be_written_twice_is_read_back() {
        for (path, sent) in [
            ("0x09:2", 2),
            ("0x0A", 2),
            ("0x0A:2", 2),
            ("0x05:8", 2),
            ("0xFFFFFF10:2", 2),
            ("0xFFFFFF0C:8", 2),
            // Registers beside them are written again.
            ("0x08:2", 4),
            ("0x0B:2", 4),
        ] {
            let registers = Registers::recbe(7, Faults::default());
            let channel = Unacknowledged { now_ns: 0, registers, answers: Vec::new(), answer: Vec::new() };
            let mut control = RegisterControl::new(Box::new(channel), Settings::default());
            let done = control.set(path, "1");
            assert_eq!((control.counts().sent, done.is_ok()), (sent, sent == 2), "{path}: {done:?}");
        }
    }

    #[test]
    fn registers_have_names_or_addresses() {
        assert_eq!(Register::parse("mode"), Ok(Register { address: 5, bytes: 1 }));
        assert_eq!(Register::parse("0x1C:2"), Ok(Register { address: 0x1C, bytes: 2 }));
        assert_eq!(Register::parse("28"), Ok(Register { address: 28, bytes: 1 }));
        for bad in ["", "mod", "0x", "0x1:0", "0x1:9", "0x100000000", "1:a"] {
            assert!(Register::parse(bad).expect_err(bad).contains("is no register"), "{bad}");
        }
    }

    #[test]
    fn values_fit_their_registers() {
        let mode = Register::parse("mode").expect("known");
        assert_eq!(mode.bytes_of("raw"), Ok(vec![1]));
        assert_eq!(mode.bytes_of("0x2"), Ok(vec![2]));
        assert!(mode.bytes_of("256").is_err() && mode.bytes_of("rw").is_err());
        let two = Register { address: 0x1C, bytes: 2 };
        assert_eq!(two.bytes_of("3500"), Ok(vec![0x0D, 0xAC]));
        assert!(Register { address: 0, bytes: 8 }.bytes_of("0xFFFFFFFFFFFFFFFF").is_ok());
    }
}
