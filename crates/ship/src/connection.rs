//! A far `thalweg receive` as a destination.
//!
//! ```text
//!  connect ─ handshake ─► Connection: question ─► answer, or Refused
//! ```
//! Chunks are not answered one by one; what is wrong with one is the answer to the next question.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustls::ClientConfig;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thalweg_transport::peer::{Role, SharedKey};

use crate::destination::Destination;
use crate::digests::Digests;
use crate::error::{Refusal, ShipError};
use crate::frame::{Frame, Kind};
use crate::handshake::{Handshake, Next};
use crate::link::{FrameLink, GREETING};
use crate::message::{Have, Offer, Proved, Range, Refused, decode, encode};

const CONNECT: Duration = Duration::from_secs(10);

/// A connection to a receiver.
#[derive(Debug)]
pub struct Connection {
    address: String,
    link: FrameLink,
    /// Proofs that were asked for and have not come.
    proofs_asked: usize,
}

impl Connection {
    /// Connects, with TLS if there are settings for it, and greets.
    ///
    /// # Errors
    /// When nobody is there, or the two do not come to terms.
    pub fn open(
        (host, port): (&str, u16),
        address: &str,
        key: Option<SharedKey>,
        shipper: u64,
        stop: &Arc<AtomicBool>,
        tls: Option<&Arc<ClientConfig>>,
    ) -> Result<Connection, ShipError> {
        let failed = |cause| ShipError::Connection { destination: address.to_owned(), cause };
        let addresses = (host, port).to_socket_addrs().map_err(failed)?;
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        let mut stream = None;
        for address in addresses {
            match TcpStream::connect_timeout(&address, CONNECT) {
                Ok(connected) => {
                    stream = Some(connected);
                    break;
                }
                Err(cause) => last = cause,
            }
        }
        let stream = stream.ok_or_else(|| failed(last))?;
        if key.is_none() && !stream.peer_addr().map_err(failed)?.ip().is_loopback() {
            return Err(ShipError::Settings(format!(
                "{address}: another host is shipped to with a token only; give both the same with --token-file"
            )));
        }
        let link = match tls {
            None => FrameLink::plain(stream, stop.clone()),
            Some(config) => FrameLink::client(stream, stop.clone(), config.clone(), host),
        };
        let link = link.map_err(failed)?;
        let mut connection = Connection { address: address.to_owned(), link, proofs_asked: 0 };
        connection.greet(key, shipper)?;
        Ok(connection)
    }

    fn greet(&mut self, key: Option<SharedKey>, shipper: u64) -> Result<(), ShipError> {
        let mut handshake = Handshake::begin(key, Role::Connecting, shipper)?;
        self.link.within(Some(GREETING));
        self.link.send_frame(&handshake.hello()).map_err(|cause| self.lost(cause))?;
        loop {
            let frame = self.link.receive(Vec::new()).map_err(|cause| self.lost(cause))?;
            if frame.kind == Kind::Refused {
                return Err(self.refused(decode(&frame.payload)));
            }
            match handshake.take(&frame).map_err(|refused| self.refused(Some(refused)))? {
                Next::Send(frame) => self.link.send_frame(&frame).map_err(|cause| self.lost(cause))?,
                Next::Begin(_) => break,
                Next::Wait | Next::SendAndBegin(..) => {}
            }
        }
        self.link.within(None);
        Ok(())
    }

    fn lost(&self, cause: io::Error) -> ShipError {
        let destination = self.address.clone();
        let of_tls = cause.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match (of_tls, cause.kind()) {
            (Some(rustls::Error::InvalidCertificate(_)), _) => {
                ShipError::Untrusted { destination, found: cause.to_string() }
            }
            (Some(_), _) => ShipError::Tls { destination, found: cause.to_string() },
            (None, io::ErrorKind::InvalidData) => {
                ShipError::Protocol { destination, found: cause.to_string() }
            }
            (None, io::ErrorKind::UnexpectedEof) => {
                let found = "the far side closed the connection; the log of `thalweg receive` says why";
                ShipError::Connection { destination, cause: io::Error::new(cause.kind(), found) }
            }
            (None, _) => ShipError::Connection { destination, cause },
        }
    }

    fn refused(&self, refused: Option<Refused>) -> ShipError {
        let destination = self.address.clone();
        match refused {
            Some(refused) => {
                ShipError::Refused { destination, refusal: refused.refusal, text: refused.shown() }
            }
            None => {
                let text = "it refuses, and does not say why".to_owned();
                ShipError::Refused { destination, refusal: Refusal::Other, text }
            }
        }
    }

    fn ask<A: DeserializeOwned>(
        &mut self,
        kind: Kind,
        question: &impl Serialize,
        wanted: Kind,
    ) -> Result<A, ShipError> {
        self.send(kind, question)?;
        self.answer(wanted)
    }

    fn send(&mut self, kind: Kind, question: &impl Serialize) -> Result<(), ShipError> {
        let payload = encode(question);
        self.link.send_frame(&Frame { kind, payload }).map_err(|cause| self.lost(cause))
    }

    fn answer<A: DeserializeOwned>(&mut self, wanted: Kind) -> Result<A, ShipError> {
        let frame = self.link.receive(Vec::new()).map_err(|cause| self.lost(cause))?;
        if frame.kind == Kind::Refused {
            return Err(self.refused(decode(&frame.payload)));
        }
        let answer = (frame.kind == wanted).then(|| decode(&frame.payload)).flatten();
        answer.ok_or_else(|| ShipError::Protocol {
            destination: self.address.clone(),
            found: "an answer of another kind came".to_owned(),
        })
    }
}

impl Destination for Connection {
    fn address(&self) -> &str {
        &self.address
    }

    fn begin(&mut self, offer: &Offer) -> Result<Have, ShipError> {
        // Of a file that is not gone on with now. What was proved of it, the far side says when it is begun again.
        while self.proofs_asked > 0 {
            match self.await_proof() {
                Err(error) if error.is_of_connection() => return Err(error),
                _ => {}
            }
        }
        self.ask(Kind::Offer, offer, Kind::Have)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), ShipError> {
        self.link.send(Kind::Chunk, &[&offset.to_le_bytes(), bytes]).map_err(|cause| self.lost(cause))
    }

    fn prove(&mut self, range: &Range) -> Result<Proved, ShipError> {
        self.ask(Kind::Prove, range, Kind::Proved)
    }

    fn ask_proof(&mut self, range: &Range) -> Result<Option<Proved>, ShipError> {
        self.send(Kind::Prove, range)?;
        self.proofs_asked += 1;
        Ok(None)
    }

    fn await_proof(&mut self) -> Result<Proved, ShipError> {
        self.proofs_asked = self.proofs_asked.saturating_sub(1);
        self.answer(Kind::Proved)
    }

    fn finish(&mut self, expected: &Digests) -> Result<Digests, ShipError> {
        self.ask(Kind::Finish, expected, Kind::Finished)
    }
}
