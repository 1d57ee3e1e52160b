//! The receiver's side of one connection: frames in, frames out.
//!
//! ```text
//!  Frame ─► Session ─ greeted? ─► Destination ─► answer          Answer { frame, is_last }
//! ```
//! Sans-I/O. Every question has one answer; what is wrong with a chunk is the answer to the question behind it.

use std::fmt;

use crate::destination::Destination;
use crate::error::{Refusal, ShipError};
use crate::frame::{Frame, Kind};
use crate::handshake::{Handshake, Next};
use crate::message::{Refused, decode, encode};

/// What is sent next, and whether the connection ends then.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The frame, if one is sent.
    pub frame: Option<Frame>,
    /// Whether it is the last.
    pub is_last: bool,
}

/// Makes the destination of a shipper, by its number.
pub type MakeDestination = Box<dyn FnOnce(u64) -> Box<dyn Destination> + Send>;

/// One connection.
pub struct Session {
    handshake: Handshake,
    make: Option<MakeDestination>,
    destination: Option<Box<dyn Destination>>,
    /// What was wrong with a chunk.
    pending: Option<Refused>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("pending", &self.pending).finish_non_exhaustive()
    }
}

impl Session {
    /// A connection that begins with this handshake.
    pub fn new(handshake: Handshake, make: MakeDestination) -> Session {
        Session { handshake, make: Some(make), destination: None, pending: None }
    }

    /// Takes a frame.
    pub fn take(&mut self, frame: &Frame) -> Answer {
        let Some(destination) = &mut self.destination else { return self.greet(frame) };
        let answer = match frame.kind {
            Kind::Chunk => {
                if let (None, Some((offset, bytes))) = (&self.pending, frame.chunk()) {
                    self.pending = destination.write(offset, bytes).err().map(|error| refused(&error));
                }
                return Answer::default();
            }
            Kind::Offer => {
                self.pending = None;
                question(frame, Kind::Have, |offer| destination.begin(&offer))
            }
            Kind::Prove | Kind::Finish if self.pending.is_some() => Err(self.pending.take()),
            Kind::Prove => question(frame, Kind::Proved, |range| destination.prove(&range)),
            Kind::Finish => question(frame, Kind::Finished, |digests| destination.finish(&digests)),
            _ => Err(None),
        };
        match answer {
            Ok(frame) => Answer { frame: Some(frame), is_last: false },
            Err(Some(refused)) => {
                Answer { frame: Some(refusal(&refused)), is_last: refused.refusal == Refusal::Unexpected }
            }
            Err(None) => {
                let refused = Refused::new(Refusal::Unexpected, "a message that has no place here");
                Answer { frame: Some(refusal(&refused)), is_last: true }
            }
        }
    }

    fn greet(&mut self, frame: &Frame) -> Answer {
        match self.handshake.take(frame) {
            Ok(Next::Wait) => Answer::default(),
            Ok(Next::Send(frame)) => Answer { frame: Some(frame), is_last: false },
            Ok(Next::Begin(shipper)) => {
                self.destination = self.make.take().map(|make| make(shipper));
                Answer::default()
            }
            Ok(Next::SendAndBegin(frame, shipper)) => {
                self.destination = self.make.take().map(|make| make(shipper));
                Answer { frame: Some(frame), is_last: false }
            }
            Err(refused) => Answer { frame: Some(refusal(&refused)), is_last: true },
        }
    }

    /// Whether the two know each other.
    pub fn is_greeted(&self) -> bool {
        self.destination.is_some()
    }
}

fn question<Q: serde::de::DeserializeOwned, A: serde::Serialize>(
    frame: &Frame,
    kind: Kind,
    ask: impl FnOnce(Q) -> Result<A, ShipError>,
) -> Result<Frame, Option<Refused>> {
    let question = decode(&frame.payload).ok_or(None)?;
    let answer = ask(question).map_err(|error| Some(refused(&error)))?;
    Ok(Frame { kind, payload: encode(&answer) })
}

fn refused(error: &ShipError) -> Refused {
    match error {
        ShipError::Refused { refusal, text, .. } => Refused::new(*refusal, text.clone()),
        error => Refused::new(Refusal::Failed, error.to_string()),
    }
}

fn refusal(refused: &Refused) -> Frame {
    Frame { kind: Kind::Refused, payload: encode(refused) }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;
    use thalweg_transport::peer::Role;

    use super::*;
    use crate::disk::faulty::FaultyDisk;
    use crate::far_files::FarFiles;

    fn session() -> Session {
        let handshake = Handshake::begin(None, Role::Listening, 0).expect("random numbers");
        let make = |_| -> Box<dyn Destination> {
            Box::new(FarFiles::new(FaultyDisk::default(), Path::new("/far"), "far", Default::default(), None))
        };
        Session::new(handshake, Box::new(make))
    }

    fn greeted() -> Session {
        let mut session = session();
        let shipper = Handshake::begin(None, Role::Connecting, 5).expect("random numbers");
        assert_eq!(session.take(&shipper.hello()), Answer::default());
        assert!(session.is_greeted());
        session
    }

    fn refusal_in(answer: &Answer) -> Option<Refusal> {
        let frame = answer.frame.as_ref().filter(|frame| frame.kind == Kind::Refused)?;
        decode::<Refused>(&frame.payload).map(|refused| refused.refusal)
    }

    #[test]
    fn nothing_is_taken_before_the_greeting() {
        let offer = Frame { kind: Kind::Offer, payload: Vec::new() };
        let answer = session().take(&offer);
        assert!(answer.is_last && refusal_in(&answer) == Some(Refusal::Unexpected));
    }

    #[test]
    fn a_path_out_of_the_directory_is_refused() {
        let text = r#"{"run": "../../etc", "file": "passwd", "kind": "whole", "identity": {"bytes": 1, "modified_ns": 2, "inode": 3}}"#;
        let answer = greeted().take(&Frame { kind: Kind::Offer, payload: text.as_bytes().to_vec() });
        assert!(!answer.is_last && refusal_in(&answer) == Some(Refusal::Name), "{answer:?}");
    }

    #[test]
    fn bytes_at_a_wrong_place_are_the_answer_to_the_next_question() {
        let mut session = greeted();
        let text = r#"{"run": "1", "file": "a", "kind": "whole", "identity": {"bytes": 1, "modified_ns": 2, "inode": 3}}"#;
        let answer = session.take(&Frame { kind: Kind::Offer, payload: text.as_bytes().to_vec() });
        assert_eq!(answer.frame.expect("an answer").kind, Kind::Have);
        let chunk = Frame { kind: Kind::Chunk, payload: [&9u64.to_le_bytes()[..], b"x"].concat() };
        assert_eq!(session.take(&chunk), Answer::default());
        let range = br#"{"from": 0, "to": 1, "crc32c": 0}"#.to_vec();
        let answer = session.take(&Frame { kind: Kind::Prove, payload: range });
        assert_eq!(refusal_in(&answer), Some(Refusal::Unexpected), "{answer:?}");
    }

    proptest! {
        #[test]
        fn any_frames_are_taken_without_panic(frames in proptest::collection::vec((0usize..6, proptest::collection::vec(any::<u8>(), 0..60)), 0..8)) {
            let mut session = greeted();
            for (kind, payload) in frames {
                let kind = [Kind::Hello, Kind::Proof, Kind::Offer, Kind::Chunk, Kind::Prove, Kind::Finish][kind];
                session.take(&Frame { kind, payload });
            }
        }
    }
}
