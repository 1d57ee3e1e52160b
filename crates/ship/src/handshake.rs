//! What two ends say before any file: which versions they speak, and that both have the token.
//!
//! ```text
//!  Hello { versions, nonce, has_token } ⇄ Hello ─ with a token: Proof ⇄ Proof ─► agreed, or a refusal in words
//! ```
//! Sans-I/O. The token itself never leaves the process: a proof is an HMAC over both nonces, as of the key of units. The shipper proves
//! itself first, so that a program that only listens learns nothing that it could use.

use serde::{Deserialize, Serialize};
use thalweg_transport::peer::{NONCE_BYTES, Nonce, Role, SharedKey, fresh_nonce};

use crate::error::{Refusal, ShipError};
use crate::frame::{Frame, Kind};
use crate::message::{Refused, decode, encode};

/// Versions of the protocol that this build speaks.
pub const VERSIONS: std::ops::RangeInclusive<u16> = 1..=1;
/// What keeps these proofs apart from those of other protocols.
const PURPOSE: &str = "thalweg ship proof 1";

/// What each end says first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Constant, to know the protocol by.
    pub protocol: String,
    /// Lowest version that it speaks.
    pub lowest: u16,
    /// Highest version that it speaks.
    pub highest: u16,
    /// Fresh random bytes.
    pub nonce: Nonce,
    /// Whether it has a token.
    pub has_token: bool,
    /// Who ships: another number for each process.
    pub shipper: u64,
}

const PROTOCOL: &str = "thalweg ship";

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Send this and go on.
    Send(Frame),
    /// Send this: both know each other. The number is that of the shipper.
    SendAndBegin(Frame, u64),
    /// Both know each other.
    Begin(u64),
    /// Nothing is sent yet.
    Wait,
}

/// One end's side of it.
#[derive(Debug)]
pub struct Handshake {
    ours: Hello,
    key: Option<SharedKey>,
    role: Role,
    theirs: Option<Hello>,
}

impl Handshake {
    /// Begins. Both ends send [`Handshake::hello`] at once.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn begin(key: Option<SharedKey>, role: Role, shipper: u64) -> Result<Handshake, ShipError> {
        let nonce: [u8; NONCE_BYTES] =
            fresh_nonce().map_err(|error| ShipError::Settings(error.to_string()))?;
        let ours = Hello {
            protocol: PROTOCOL.to_owned(),
            lowest: *VERSIONS.start(),
            highest: *VERSIONS.end(),
            nonce,
            has_token: key.is_some(),
            shipper,
        };
        Ok(Handshake { ours, key, role, theirs: None })
    }

    /// What is sent first.
    pub fn hello(&self) -> Frame {
        Frame { kind: Kind::Hello, payload: encode(&self.ours) }
    }

    /// Takes a frame of the other end.
    ///
    /// # Errors
    /// When the two do not come to terms; the words are for both.
    pub fn take(&mut self, frame: &Frame) -> Result<Next, Refused> {
        match (frame.kind, self.theirs.take()) {
            (Kind::Hello, None) => self.greet(frame),
            (Kind::Proof, Some(theirs)) => self.check(frame, &theirs),
            _ => Err(Refused::new(Refusal::Unexpected, "a message that has no place in a greeting")),
        }
    }

    fn greet(&mut self, frame: &Frame) -> Result<Next, Refused> {
        let theirs: Option<Hello> = decode(&frame.payload);
        let theirs = theirs.filter(|theirs| theirs.protocol == PROTOCOL);
        let theirs = theirs.ok_or_else(|| Refused::new(Refusal::Unexpected, "a greeting of another kind"))?;
        let (lowest, highest) = (*VERSIONS.start(), *VERSIONS.end());
        if theirs.highest < lowest || theirs.lowest > highest {
            let (low, high) = (theirs.lowest, theirs.highest);
            let text = format!(
                "one end speaks versions {lowest} to {highest} of the protocol, the other {low} to {high}; \
                 install one release of thalweg at both"
            );
            return Err(Refused::new(Refusal::Version, text));
        }
        let shipper = theirs.shipper;
        let next = match (&self.key, theirs.has_token) {
            (None, false) => return Ok(Next::Begin(shipper)),
            (Some(key), true) if self.role == Role::Connecting => {
                let proof = key.sign(PURPOSE, self.role, &self.ours.nonce, &theirs.nonce);
                Next::Send(Frame { kind: Kind::Proof, payload: proof.as_ref().to_vec() })
            }
            (Some(_), true) => Next::Wait,
            (ours, _) => {
                let who = match (ours.is_some(), self.role) {
                    (true, Role::Listening) | (false, Role::Connecting) => "`thalweg receive`",
                    _ => "`thalweg ship`",
                };
                let text = format!("only {who} has a token; give both the same with --token-file");
                return Err(Refused::new(Refusal::Token, text));
            }
        };
        self.theirs = Some(theirs);
        Ok(next)
    }

    fn check(&self, frame: &Frame, theirs: &Hello) -> Result<Next, Refused> {
        let Some(key) = &self.key else {
            return Err(Refused::new(Refusal::Unexpected, "a proof that nobody has asked for"));
        };
        if !key.is_signed(PURPOSE, self.role, &self.ours.nonce, &theirs.nonce, &frame.payload) {
            let text = "the token of the other end is another one; give both the same with --token-file";
            return Err(Refused::new(Refusal::Token, text));
        }
        match self.role {
            Role::Connecting => Ok(Next::Begin(theirs.shipper)),
            Role::Listening => {
                let proof = key.sign(PURPOSE, self.role, &self.ours.nonce, &theirs.nonce);
                let frame = Frame { kind: Kind::Proof, payload: proof.as_ref().to_vec() };
                Ok(Next::SendAndBegin(frame, theirs.shipper))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn end(key: Option<&[u8]>, role: Role) -> Handshake {
        let key = key.map(|secret| SharedKey::new(secret).expect("long enough"));
        Handshake::begin(key, role, 77).expect("random numbers")
    }

    /// Lets the two speak; whether both begin, or the first refusal.
    fn speak(shipper: &mut Handshake, receiver: &mut Handshake) -> Result<(), Refused> {
        let at_receiver = receiver.take(&shipper.hello())?;
        match (shipper.take(&receiver.hello())?, at_receiver) {
            (Next::Begin(_), Next::Begin(77)) => Ok(()),
            (Next::Send(proof), Next::Wait) => match receiver.take(&proof)? {
                Next::SendAndBegin(proof, 77) => {
                    assert_eq!(shipper.take(&proof)?, Next::Begin(77));
                    Ok(())
                }
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    fn between(ours: Option<&[u8]>, theirs: Option<&[u8]>) -> Result<(), Refused> {
        speak(&mut end(ours, Role::Connecting), &mut end(theirs, Role::Listening))
    }

    #[test]
    fn ends_with_one_token_or_none_begin_and_others_are_refused_in_words() {
        let (token, other) = (Some(&b"a token of 16 bytes"[..]), Some(&b"another token, longer"[..]));
        assert_eq!(between(token, token), Ok(()));
        assert_eq!(between(None, None), Ok(()));
        let refused = between(token, other).expect_err("another token");
        assert_eq!(refused.refusal, Refusal::Token);
        for (ours, theirs, who) in [(token, None, "thalweg ship"), (None, token, "thalweg receive")] {
            let refused = between(ours, theirs).expect_err("one has none");
            assert!(refused.refusal == Refusal::Token && refused.text.contains(who), "{refused:?}");
        }
    }

    #[test]
    fn an_end_of_another_version_is_refused_with_both_versions() {
        let (mut old, mut receiver) = (end(None, Role::Connecting), end(None, Role::Listening));
        (old.ours.lowest, old.ours.highest) = (7, 9);
        let refused = speak(&mut old, &mut receiver).expect_err("another version");
        assert!(refused.refusal == Refusal::Version && refused.text.contains("7 to 9"), "{refused:?}");
    }

    #[test]
    fn a_proof_that_is_sent_back_proves_nothing() {
        let token = Some(&b"a token of 16 bytes"[..]);
        let mut shipper = end(token, Role::Connecting);
        let mirrored = shipper.hello();
        let Ok(Next::Send(proof)) = shipper.take(&mirrored) else { panic!("it proves itself") };
        assert_eq!(shipper.take(&proof).expect_err("a mirror").refusal, Refusal::Token);
    }

    proptest! {
        #[test]
        fn no_foreign_frame_gets_past_the_proof(
            frames in proptest::collection::vec((0usize..4, proptest::collection::vec(any::<u8>(), 0..80)), 0..6)
        ) {
            let mut receiver = end(Some(b"a token of 16 bytes"), Role::Listening);
            for (kind, payload) in frames {
                let kind = [Kind::Hello, Kind::Proof, Kind::Offer, Kind::Chunk][kind];
                let next = receiver.take(&Frame { kind, payload });
                prop_assert!(matches!(next, Err(_) | Ok(Next::Wait)), "{:?}", next);
            }
        }
    }
}
