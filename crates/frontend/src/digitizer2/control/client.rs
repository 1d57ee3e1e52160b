//! The side of the host: opens a board, and reads its replies.
//!
//! ```text
//!  Opening ─ next ─► Request ─► (the host's socket) ─► Reply ─ take ─► Opening … ─► BoardInfo
//!  Request::get, set, command ─► (the host's socket) ─► Client ─► values
//! ```

use crate::digitizer2::Firmware;
use crate::format::{BoardFacts, DataPlace};

use super::UDP_DATA_PORT;
use super::message::{Assembler, LONGEST_REPLY, MessageError, Reply, Request, Verb};

/// Why a request to a board failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The stream cannot be read any more.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The board refused the request.
    #[error("the board refused `{request}` at `{path}`: {reason}")]
    Refused {
        /// The request.
        request: String,
        /// The path of the node.
        path: String,
        /// The board's message.
        reason: String,
    },
    /// The answer belongs to another request.
    #[error("the board answered `{found}` to `{expected}`: replies are out of step; connect anew")]
    OutOfStep {
        /// The expected request.
        expected: String,
        /// The request that was answered.
        found: String,
    },
    /// The answer has an unexpected form.
    #[error("the board answered \"{}\" to `{request}` at `{path}`; {expected} was expected", found.join("\", \""))]
    Answer {
        /// The request.
        request: String,
        /// The path of the node.
        path: String,
        /// The answer.
        found: Vec<String>,
        /// What was expected.
        expected: &'static str,
    },
    /// The board has no endpoint for raw data.
    #[error(
        "the board has neither an endpoint `raw` nor `rawudp`; is it booting, or is its firmware unlicensed?"
    )]
    NoEndpoint,
}

/// Writes requests and assembles replies, one at a time.
#[derive(Debug)]
pub struct Client {
    assembler: Assembler,
}

impl Default for Client {
    fn default() -> Self {
        Client { assembler: Assembler::new(LONGEST_REPLY) }
    }
}

impl Client {
    /// Appends the bytes of a request to `out`.
    pub fn request(&self, request: &Request, out: &mut Vec<u8>) {
        request.encode(out);
    }

    /// Takes received bytes, if any; returns the reply to `request` once it is complete.
    ///
    /// # Errors
    /// When the stream cannot be read any more, or the board refused the request.
    pub fn receive(&mut self, request: &Request, bytes: &[u8]) -> Result<Option<Reply>, ClientError> {
        self.assembler.push(bytes);
        let Some(json) = self.assembler.next_message()? else { return Ok(None) };
        let reply = Reply::decode(&json)?;
        if !reply.result {
            return Err(ClientError::Refused {
                request: request.cmd.clone(),
                path: request.query.clone(),
                reason: reply.value.join("; "),
            });
        }
        if !reply.cmd.eq_ignore_ascii_case(&request.cmd) {
            return Err(ClientError::OutOfStep { expected: request.cmd.clone(), found: reply.cmd });
        }
        Ok(Some(reply))
    }
}

/// Properties of an open board.
#[derive(Clone, Debug, PartialEq)]
pub struct BoardInfo {
    /// Handle from which all paths start.
    pub root: u64,
    /// The board's software: major * 10000 + minor * 100 + patch.
    pub version: u32,
    /// Channels.
    pub channels: u16,
    /// Sampling rate in MHz: one count of the board's clock is `1 / sampling_mhz` microseconds.
    pub sampling_mhz: f64,
    /// The port of the board's data. A stream begins with a clear marker; datagrams come when register
    /// [`super::UDP_READY_REGISTER`] of `/par/registermisc` is not "0".
    pub data: DataPlace,
    /// Endpoints by name, with their handles: `raw` or `rawudp`, and the firmware's decoded format (`dpppsd`, …).
    pub endpoints: Vec<(String, u64)>,
}

impl BoardInfo {
    /// The properties of the board, with its name and serial number, which the host requests separately.
    pub fn facts(&self, model: String, serial: String) -> BoardFacts {
        BoardFacts {
            model,
            serial,
            firmware: self
                .firmware_endpoint()
                .and_then(Firmware::of_endpoint)
                .map(|known| known.word().to_owned()),
            sampling_mhz: self.sampling_mhz,
            tick_ps: 1e6 / self.sampling_mhz,
            channels: self.channels,
            ..BoardFacts::default()
        }
    }

    /// The paths of the parameters that say how many samples a waveform has before its trigger.
    pub fn before_trigger_paths(&self) -> Vec<String> {
        match self.firmware_endpoint() {
            Some("scope") => vec!["/par/pretriggers".to_owned()],
            _ => (0..self.channels).map(|channel| format!("/ch/{channel}/par/chpretriggers")).collect(),
        }
    }

    /// The firmware's endpoint: `dpppsd`, `dpppha`, `scope`, `opendpp`, `dppzle`.
    pub fn firmware_endpoint(&self) -> Option<&str> {
        let decoded = |name: &&str| !name.starts_with("raw") && *name != "opendata";
        self.endpoints.iter().map(|(name, _)| name.as_str()).find(decoded)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Connect,
    Channels,
    SamplingRate,
    Endpoints,
    Endpoint(usize),
    Port(u64),
    Done,
}

/// The requests that open a board, for the properties that are needed to read data.
#[derive(Debug)]
pub struct Opening {
    step: Step,
    info: BoardInfo,
    handles: Vec<u64>,
}

impl Default for Opening {
    fn default() -> Self {
        Opening {
            step: Step::Connect,
            info: BoardInfo {
                root: 0,
                version: 0,
                channels: 0,
                sampling_mhz: 0.0,
                data: DataPlace::Datagrams(UDP_DATA_PORT),
                endpoints: Vec::new(),
            },
            handles: Vec::new(),
        }
    }
}

impl Opening {
    /// The next request; `None` if all properties are known. It is the same until its reply was taken.
    pub fn next_request(&self) -> Option<Request> {
        let root = self.info.root;
        Some(match self.step {
            Step::Connect => Request::connect(),
            Step::Channels => Request::get(root, "/par/numch"),
            Step::SamplingRate => Request::get(root, "/par/adc_samplrate"),
            Step::Endpoints => Request::new(Verb::GetChildHandles, root, "/endpoint", ""),
            Step::Endpoint(index) => Request::new(Verb::GetNodeProperties, *self.handles.get(index)?, "", ""),
            Step::Port(handle) => Request::get(handle, "/port"),
            Step::Done => return None,
        })
    }

    /// Takes the reply to the last request.
    ///
    /// # Errors
    /// When it has an unexpected form, or the board has no endpoint for raw data.
    pub fn take(&mut self, reply: &Reply) -> Result<(), ClientError> {
        let request = self.next_request().unwrap_or_default();
        let wrong = |expected| ClientError::Answer {
            request: request.cmd.clone(),
            path: request.query.clone(),
            found: reply.value.clone(),
            expected,
        };
        let first = reply.value.first().map_or("", String::as_str);
        match self.step {
            Step::Connect => {
                self.info.root = first.parse().map_err(|_| wrong("a handle"))?;
                self.info.version = reply.value.get(1).and_then(|text| text.parse().ok()).unwrap_or(0);
                self.step = Step::Channels;
            }
            Step::Channels => {
                let channels = first.parse().ok().filter(|channels| (1..=128).contains(channels));
                self.info.channels = channels.ok_or_else(|| wrong("1 to 128 channels"))?;
                self.step = Step::SamplingRate;
            }
            Step::SamplingRate => {
                let rate = first.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
                self.info.sampling_mhz = rate.ok_or_else(|| wrong("a sampling rate in MHz"))?;
                self.step = Step::Endpoints;
            }
            Step::Endpoints => {
                let handles: Result<_, _> = reply.value.iter().map(|text| text.parse()).collect();
                self.handles = handles.map_err(|_| wrong("handles"))?;
                self.step = Step::Endpoint(0);
                self.after_endpoints()?;
            }
            Step::Endpoint(index) => {
                let [name, kind] = reply.value.as_slice() else { return Err(wrong("a name and a type")) };
                if kind.eq_ignore_ascii_case("ENDPOINT") {
                    self.info.endpoints.push((name.to_lowercase(), self.handles[index]));
                }
                self.step = Step::Endpoint(index + 1);
                self.after_endpoints()?;
            }
            Step::Port(_) => {
                self.info.data = DataPlace::Stream(first.parse().map_err(|_| wrong("a TCP port"))?);
                self.step = Step::Done;
            }
            Step::Done => {}
        }
        Ok(())
    }

    /// The raw endpoint determines where the board sends its data.
    fn after_endpoints(&mut self) -> Result<(), ClientError> {
        if !matches!(self.step, Step::Endpoint(index) if index >= self.handles.len()) {
            return Ok(());
        }
        let handle_of = |name: &str| {
            self.info.endpoints.iter().find(|(found, _)| found == name).map(|(_, handle)| *handle)
        };
        self.step = match (handle_of("raw"), handle_of("rawudp")) {
            (Some(handle), _) => Step::Port(handle),
            (None, Some(_)) => Step::Done,
            (None, None) => return Err(ClientError::NoEndpoint),
        };
        Ok(())
    }

    /// The properties of the board, once no request is left.
    pub fn finish(self) -> Option<BoardInfo> {
        (self.step == Step::Done).then_some(self.info)
    }
}
