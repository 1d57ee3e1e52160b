//! One request or reply: a header with a length, then JSON.
//!
//! ```text
//!  | length, 8 bytes big-endian | 24 bytes zero | JSON of that length |
//! ```
//! Keys may be missing or null; unknown keys are ignored. A message that is too long ends the connection, because the
//! start of the next one is not known.

use serde::{Deserialize, Deserializer, Serialize};

/// Bytes before the JSON.
pub const HEADER_BYTES: usize = 32;
/// Longest request that a board accepts, in bytes.
pub const LONGEST_REQUEST: usize = 1 << 16;
/// Longest reply that a client accepts, in bytes: a device tree of many channels has a few MiB.
pub const LONGEST_REPLY: usize = 16 << 20;

/// Why a message cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// The length in the header is more than allowed; close the connection.
    #[error(
        "a control message has a length of {length} bytes, and at most {longest} are accepted; is this a control port?"
    )]
    TooLong {
        /// The length in the header.
        length: u64,
        /// The limit.
        longest: usize,
    },
    /// Not JSON, or not of the expected form; the next message can be read.
    #[error("a control message that cannot be understood: {0}")]
    Json(#[from] serde_json::Error),
}

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verb {
    /// First request of a connection.
    Connect,
    /// The whole tree as JSON.
    GetDeviceTree,
    /// Handles of the nodes below one.
    GetChildHandles,
    /// The handle of a path.
    GetHandle,
    /// The handle of the node above.
    GetParentHandle,
    /// The path of a handle.
    GetPath,
    /// Name and type of a node.
    GetNodeProperties,
    /// The value of a node.
    GetValue,
    /// Sets the value of a node, or of each node of a range.
    SetValue,
    /// Performs a command node.
    SendCommand,
}

/// A client's request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The operation: a [`Verb`], or a name that the server does not know.
    #[serde(default, deserialize_with = "text")]
    pub cmd: String,
    /// The node from which the path starts; `connect` ignores it.
    #[serde(default, deserialize_with = "handle")]
    pub handle: u64,
    /// Path from there.
    #[serde(default, deserialize_with = "text")]
    pub query: String,
    /// Value or argument.
    #[serde(default, deserialize_with = "text")]
    pub value: String,
}

/// How a command changed the data connection. The client waits for a clear marker, except after `Disarm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Flag {
    /// Armed.
    Arm,
    /// Disarmed.
    Disarm,
    /// Data voided.
    Clear,
    /// Reset to the state after power-on.
    Reset,
}

/// A board's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The operation of the request.
    #[serde(default, deserialize_with = "text")]
    pub cmd: String,
    /// Whether the request was done.
    #[serde(default)]
    pub result: bool,
    /// The change of the data connection; see [`Flag`].
    #[serde(default)]
    pub flag: Option<Flag>,
    /// Values, or the error if the request was not done.
    #[serde(default, deserialize_with = "texts")]
    pub value: Vec<String>,
}

fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::String(text) => text,
        serde_json::Value::Null => String::new(),
        other => other.to_string(),
    })
}

fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::<Vec<String>>::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads a handle from a number or a string of digits; anything else is not a node's handle.
fn handle<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::Number(number) => number.as_u64().unwrap_or(u64::MAX),
        serde_json::Value::String(text) => text.parse().unwrap_or(u64::MAX),
        _ => u64::MAX,
    })
}

impl Verb {
    const ALL: [(Verb, &'static str); 10] = [
        (Verb::Connect, "connect"),
        (Verb::GetDeviceTree, "getDeviceTree"),
        (Verb::GetChildHandles, "getChildHandles"),
        (Verb::GetHandle, "getHandle"),
        (Verb::GetParentHandle, "getParentHandle"),
        (Verb::GetPath, "getPath"),
        (Verb::GetNodeProperties, "getNodeProperties"),
        (Verb::GetValue, "getValue"),
        (Verb::SetValue, "setValue"),
        (Verb::SendCommand, "sendCommand"),
    ];

    /// The name on the wire.
    pub fn word(self) -> &'static str {
        Verb::ALL.iter().find(|(verb, _)| *verb == self).map_or("", |(_, word)| word)
    }

    /// The verb with this name, in any case.
    pub fn from_word(word: &str) -> Option<Verb> {
        Verb::ALL.iter().find(|(_, known)| known.eq_ignore_ascii_case(word)).map(|(verb, _)| *verb)
    }
}

impl Request {
    /// Creates a request.
    pub fn new(verb: Verb, handle: u64, query: &str, value: &str) -> Request {
        Request { cmd: verb.word().into(), handle, query: query.into(), value: value.into() }
    }

    /// Opens the connection for a client that may change settings.
    pub fn connect() -> Request {
        Request::new(Verb::Connect, 0, "", "client")
    }

    /// Requests the value at a path below `handle`.
    pub fn get(handle: u64, path: &str) -> Request {
        Request::new(Verb::GetValue, handle, path, "")
    }

    /// Sets the value at a path below `handle`; a range such as `/ch/0..63/par/chenable` sets several.
    pub fn set(handle: u64, path: &str, value: &str) -> Request {
        Request::new(Verb::SetValue, handle, path, value)
    }

    /// Performs a command such as `/cmd/armacquisition`.
    pub fn command(handle: u64, path: &str) -> Request {
        Request::new(Verb::SendCommand, handle, path, "")
    }

    /// Appends the framed message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode(self, out);
    }

    /// Reads the JSON of a message.
    ///
    /// # Errors
    /// When it is not JSON or not a request.
    pub fn decode(json: &[u8]) -> Result<Request, MessageError> {
        Ok(serde_json::from_slice(json)?)
    }
}

impl Reply {
    /// A reply to a request that was done, with values.
    pub fn done(request: &Request, value: Vec<String>) -> Reply {
        Reply { cmd: request.cmd.clone(), result: true, flag: None, value }
    }

    /// A reply to a request that was not done, with the reason.
    pub fn refused(cmd: &str, reason: impl ToString) -> Reply {
        Reply { cmd: cmd.into(), result: false, flag: None, value: vec![reason.to_string()] }
    }

    /// Appends the framed message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode(self, out);
    }

    /// Reads the JSON of a message.
    ///
    /// # Errors
    /// When it is not JSON or not a reply.
    pub fn decode(json: &[u8]) -> Result<Reply, MessageError> {
        Ok(serde_json::from_slice(json)?)
    }
}

fn encode(message: &impl Serialize, out: &mut Vec<u8>) {
    let json = serde_json::to_vec(message).expect("strings, numbers and flags can be written as JSON");
    out.extend_from_slice(&(json.len() as u64).to_be_bytes());
    out.extend_from_slice(&[0; HEADER_BYTES - 8]);
    out.extend_from_slice(&json);
}

/// Assembles messages from the chunks of a stream.
#[derive(Debug)]
pub struct Assembler {
    bytes: Vec<u8>,
    longest: usize,
}

impl Assembler {
    /// Creates an assembler of messages with at most `longest` bytes of JSON.
    pub fn new(longest: usize) -> Assembler {
        Assembler { bytes: Vec::new(), longest }
    }

    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The JSON of the next complete message.
    ///
    /// # Errors
    /// When the length in its header is more than allowed: nothing more can be read from this stream.
    pub fn next_message(&mut self) -> Result<Option<Vec<u8>>, MessageError> {
        let Some(length) = self.bytes.first_chunk().map(|head| u64::from_be_bytes(*head)) else {
            return Ok(None);
        };
        if length > self.longest as u64 {
            return Err(MessageError::TooLong { length, longest: self.longest });
        }
        let end = HEADER_BYTES + length as usize;
        if self.bytes.len() < end {
            return Ok(None);
        }
        let json = self.bytes[HEADER_BYTES..end].to_vec();
        self.bytes.drain(..end);
        Ok(Some(json))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn missing_and_null_keys_are_tolerated() {
        let request = Request::decode(br#"{"cmd":"connect","handle":-1,"query":null,"extra":[1]}"#);
        let request = request.expect("a request");
        assert_eq!((request.cmd.as_str(), request.handle, request.query.as_str()), ("connect", u64::MAX, ""));
        let reply =
            Reply::decode(br#"{"cmd":"getValue","result":true,"flag":null,"value":null}"#).expect("a reply");
        assert!(reply.result && reply.value.is_empty() && reply.flag.is_none());
        assert!(Request::decode(b"3").is_err() && Request::decode(b"{").is_err());
    }

    #[test]
    fn verbs_have_the_documented_names() {
        for (verb, word) in Verb::ALL {
            assert_eq!(serde_json::to_value(verb).expect("a word"), word);
            assert_eq!(Verb::from_word(&word.to_uppercase()), Some(verb));
        }
        let mut out = Vec::new();
        let flag = Some(Flag::Arm);
        Reply { flag, ..Reply::done(&Request::command(0, "/cmd/armacquisition"), vec![]) }.encode(&mut out);
        assert_eq!(&out[32..], br#"{"cmd":"sendCommand","result":true,"flag":"ARM","value":[]}"#);
        assert_eq!(out[..8], (out.len() as u64 - 32).to_be_bytes());
    }

    #[test]
    fn a_message_that_is_too_long_is_refused_at_once() {
        let mut assembler = Assembler::new(100);
        assembler.push(&101u64.to_be_bytes());
        assert!(matches!(assembler.next_message(), Err(MessageError::TooLong { length: 101, longest: 100 })));
    }

    proptest! {
        #[test]
        fn messages_are_assembled_from_any_chunks(
            messages in prop::collection::vec((".{0,20}", any::<u64>(), ".{0,30}", ".{0,30}"), 1..5),
            chunk_bytes in 1usize..60,
        ) {
            let mut bytes = Vec::new();
            let requests: Vec<Request> = messages
                .into_iter()
                .map(|(cmd, handle, query, value)| Request { cmd, handle, query, value })
                .collect();
            requests.iter().for_each(|request| request.encode(&mut bytes));
            let (mut assembler, mut read) = (Assembler::new(LONGEST_REQUEST), Vec::new());
            for chunk in bytes.chunks(chunk_bytes) {
                assembler.push(chunk);
                while let Some(json) = assembler.next_message().expect("short") {
                    read.push(Request::decode(&json).expect("as written"));
                }
            }
            prop_assert_eq!(read, requests);
        }

        #[test]
        fn replies_are_read_as_written(result: bool, value in prop::collection::vec(".*", 0..4), flag in 0usize..5) {
            let flag = [None, Some(Flag::Arm), Some(Flag::Disarm), Some(Flag::Clear), Some(Flag::Reset)][flag];
            let reply = Reply { cmd: "getValue".into(), result, flag, value };
            let mut bytes = Vec::new();
            reply.encode(&mut bytes);
            prop_assert_eq!(Reply::decode(&bytes[HEADER_BYTES..]).expect("as written"), reply);
        }

        #[test]
        fn arbitrary_bytes_give_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut assembler = Assembler::new(LONGEST_REQUEST);
            assembler.push(&bytes);
            if let Ok(Some(json)) = assembler.next_message() {
                let _ = Request::decode(&json);
            }
        }
    }
}
