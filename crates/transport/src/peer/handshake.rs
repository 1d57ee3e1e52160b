//! The handshake before any message: first both ends prove that they have the key of the run, then they say who they are.
//!
//! ```text
//!  with a key:     Challenge ⇄ Challenge ─ Proof ⇄ Proof ─ Hello ⇄ Hello ─► agreed
//!  without one:                                            Hello ⇄ Hello ─► agreed
//! ```
//! Sans-I/O: frames in, frames out. With a key, an end sends nothing about the run (its name, its configuration's digest, the unit's
//! name) before the other end has proved that it has the key as well.

use super::PeerError;
use super::error::KeyProblem;
use super::frame::Kind;
use super::hello::{Hello, VERSIONS};
use super::key::{NONCE_BYTES, Nonce, Role, SharedKey, fresh_nonce};

/// Why a handshake fails.
#[derive(Debug)]
pub(super) enum Disagreement {
    /// The ends do not have the same key.
    Key(KeyProblem),
    /// No version is common: the other end's lowest and highest one, and its name if it has sent one.
    Version(u16, u16, String),
    /// The other end has another configuration or belongs to another run.
    Identity(Hello),
    /// The frame cannot be read, or came out of turn.
    Unreadable,
}

/// What to do after a frame of the handshake.
#[derive(Debug)]
pub(super) enum Next {
    /// Send this frame, and wait for the next one.
    Send(Kind, Vec<u8>),
    /// The handshake is complete: the agreed version, and the other end's hello.
    Agreed(u16, Hello),
}

/// Which frame of the other end comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Challenge,
    Proof,
    Hello,
}

/// The state of a handshake at one end.
#[derive(Debug)]
pub(super) struct Handshake {
    ours: Hello,
    key: Option<SharedKey>,
    role: Role,
    nonce: Nonce,
    theirs: Nonce,
    stage: Stage,
}

impl Handshake {
    /// Begins a handshake; returns it with the first frame to send.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub(super) fn begin(
        ours: Hello,
        key: Option<SharedKey>,
        role: Role,
    ) -> Result<(Handshake, Kind, Vec<u8>), PeerError> {
        let (mut head, theirs) = (Vec::new(), [0; NONCE_BYTES]);
        let Some(key) = key else {
            ours.encode(&mut head);
            let handshake = Handshake { ours, key: None, role, nonce: theirs, theirs, stage: Stage::Hello };
            return Ok((handshake, Kind::Hello, head));
        };
        let nonce = fresh_nonce()?;
        head.extend(VERSIONS.start().to_le_bytes());
        head.extend(VERSIONS.end().to_le_bytes());
        head.extend(nonce);
        let handshake = Handshake { ours, key: Some(key), role, nonce, theirs, stage: Stage::Challenge };
        Ok((handshake, Kind::Challenge, head))
    }

    /// Whether the other end may know who this one is.
    pub(super) fn may_name_itself(&self) -> bool {
        self.key.is_none() || self.stage == Stage::Hello
    }

    /// Handles a frame of the other end.
    pub(super) fn take(&mut self, kind: Kind, head: &[u8]) -> Result<Next, Disagreement> {
        match (kind, self.stage, &self.key) {
            (Kind::Challenge, Stage::Challenge, Some(key)) => {
                let (lowest, highest, nonce) = challenge(head).ok_or(Disagreement::Unreadable)?;
                if highest < *VERSIONS.start() || lowest > *VERSIONS.end() {
                    return Err(Disagreement::Version(lowest, highest, String::new()));
                }
                self.theirs = nonce;
                self.stage = Stage::Proof;
                let proof = key.proof(self.role, &self.nonce, &self.theirs);
                Ok(Next::Send(Kind::Proof, proof.as_ref().to_vec()))
            }
            (Kind::Proof, Stage::Proof, Some(key)) => {
                if !key.is_proved(self.role, &self.nonce, &self.theirs, head) {
                    return Err(Disagreement::Key(KeyProblem::Another));
                }
                self.stage = Stage::Hello;
                let mut hello = Vec::new();
                self.ours.encode(&mut hello);
                Ok(Next::Send(Kind::Hello, hello))
            }
            (Kind::Hello, Stage::Hello, _) => self.agree(head),
            (Kind::Hello, Stage::Challenge, Some(_)) => Err(Disagreement::Key(KeyProblem::TheyHaveNone)),
            (Kind::Challenge, Stage::Hello, None) => Err(Disagreement::Key(KeyProblem::WeHaveNone)),
            _ => Err(Disagreement::Unreadable),
        }
    }

    fn agree(&mut self, head: &[u8]) -> Result<Next, Disagreement> {
        let theirs = Hello::decode(head).ok_or(Disagreement::Unreadable)?;
        let Some(version) = self.ours.agree(&theirs) else {
            return Err(Disagreement::Version(theirs.lowest, theirs.highest, theirs.name));
        };
        match theirs.identity == self.ours.identity {
            true => Ok(Next::Agreed(version, theirs)),
            false => Err(Disagreement::Identity(theirs)),
        }
    }
}

/// Reads a challenge: lowest and highest version, and the nonce; ignores what later versions append.
fn challenge(head: &[u8]) -> Option<(u16, u16, Nonce)> {
    let (lowest, rest) = head.split_first_chunk()?;
    let (highest, rest) = rest.split_first_chunk()?;
    let (nonce, _) = rest.split_first_chunk::<NONCE_BYTES>()?;
    Some((u16::from_le_bytes(*lowest), u16::from_le_bytes(*highest), *nonce))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::RunIdentity;
    use proptest::prelude::*;

    fn end(name: &str, key: Option<&[u8]>, role: Role) -> (Handshake, (Kind, Vec<u8>)) {
        let identity = RunIdentity { configuration: 0xfeed_beef, run: "41".to_owned() };
        let ours = Hello { identity, ..Hello::of(name, 1 << 20) };
        let key = key.map(|secret| SharedKey::new(secret).expect("long enough"));
        let (handshake, kind, head) = Handshake::begin(ours, key, role).expect("random numbers");
        (handshake, (kind, head))
    }

    /// Runs a handshake until the ends agree or one refuses; returns both names or the disagreement, and all bytes that were sent.
    fn shake_hands(
        first: Option<&[u8]>,
        second: Option<&[u8]>,
    ) -> (Result<[String; 2], Disagreement>, Vec<u8>) {
        let (mut one, mut sent_by_one) = end("one", first, Role::Connecting);
        let (mut two, mut sent_by_two) = end("two", second, Role::Listening);
        let mut sent = [sent_by_one.1.clone(), sent_by_two.1.clone()].concat();
        loop {
            let at_two = two.take(sent_by_one.0, &sent_by_one.1);
            let at_one = one.take(sent_by_two.0, &sent_by_two.1);
            match (at_one, at_two) {
                (Ok(Next::Send(kind, head)), Ok(Next::Send(other_kind, other_head))) => {
                    sent.extend(head.iter().chain(&other_head));
                    (sent_by_one, sent_by_two) = ((kind, head), (other_kind, other_head));
                }
                (Ok(Next::Agreed(_, two)), Ok(Next::Agreed(_, one))) => {
                    return (Ok([one.name, two.name]), sent);
                }
                (Err(why), _) | (_, Err(why)) => return (Err(why), sent),
                (one, two) => panic!("{one:?} at one end, {two:?} at the other"),
            }
        }
    }

    #[test]
    fn ends_with_the_same_key_or_none_agree() {
        let key = Some(b"a key of all units".as_slice());
        for key in [key, None] {
            assert_eq!(shake_hands(key, key).0.expect("agreed"), ["one", "two"]);
        }
    }

    #[test]
    fn an_end_without_the_key_learns_nothing_about_the_run() {
        let (key, other) = (Some(b"a key of all units".as_slice()), Some(b"another key, longer".as_slice()));
        let (result, sent) = shake_hands(key, other);
        assert!(matches!(result, Err(Disagreement::Key(KeyProblem::Another))), "{result:?}");
        let has = |what: &[u8]| sent.windows(what.len()).any(|bytes| bytes == what);
        assert!(!has(b"one") && !has(b"two") && !has(&0xfeed_beef_u64.to_le_bytes()) && !has(b"41"));
        assert!(matches!(shake_hands(None, key).0, Err(Disagreement::Key(KeyProblem::WeHaveNone))));
        assert!(matches!(shake_hands(key, None).0, Err(Disagreement::Key(KeyProblem::TheyHaveNone))));
    }

    proptest! {
        #[test]
        fn no_sequence_of_frames_without_the_key_gets_past_the_proof(
            frames in proptest::collection::vec((0u8..4, proptest::collection::vec(any::<u8>(), 0..80)), 0..8)
        ) {
            let (mut unit, _) = end("unit", Some(b"a key of all units"), Role::Listening);
            for (kind, head) in frames {
                let kind = [Kind::Challenge, Kind::Proof, Kind::Hello, Kind::Heartbeat][usize::from(kind)];
                match unit.take(kind, &head) {
                    Ok(Next::Send(Kind::Proof, _)) => {}
                    Ok(other) => prop_assert!(false, "{other:?}"),
                    Err(_) => break,
                }
            }
            prop_assert!(!unit.may_name_itself());
        }
    }
}
