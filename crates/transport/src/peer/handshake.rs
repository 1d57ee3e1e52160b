//! What two ends say to each other before any message: first that both have the key of the run, then who they are.
//!
//! ```text
//!  with a key:     Challenge ⇄ Challenge ─ Proof ⇄ Proof ─ Hello ⇄ Hello ─► agreed
//!  without one:                                            Hello ⇄ Hello ─► agreed
//! ```
//! Sans-I/O: frames in, frames out. With a key, nothing of the run (its name, its configuration's digest, the unit's name) is said before
//! the other end has proved that it has the key as well.

use super::PeerError;
use super::error::KeyProblem;
use super::frame::Kind;
use super::hello::{Hello, VERSIONS};
use super::key::{NONCE_BYTES, Nonce, Role, SharedKey, fresh_nonce};

/// Why the two do not come to terms.
#[derive(Debug)]
pub(super) enum Discord {
    Key(KeyProblem),
    /// The other end's lowest and highest version, and its name if it said one.
    Version(u16, u16, String),
    /// It belongs elsewhere.
    Elsewhere(Hello),
    /// What came cannot be read, or has no place here.
    Unreadable,
}

/// What comes next.
#[derive(Debug)]
pub(super) enum Next {
    /// Say this, and go on listening.
    Say(Kind, Vec<u8>),
    /// Both know each other: the version, and who the other one is.
    Agreed(u16, Hello),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The other end's challenge is awaited.
    Challenge,
    /// Its proof.
    Proof,
    /// Its hello.
    Hello,
}

/// One end's side of it.
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
    /// Begins, with what is to be said first.
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

    /// Takes a frame of the other end.
    pub(super) fn take(&mut self, kind: Kind, head: &[u8]) -> Result<Next, Discord> {
        match (kind, self.stage, &self.key) {
            (Kind::Challenge, Stage::Challenge, Some(key)) => {
                let (lowest, highest, nonce) = challenge(head).ok_or(Discord::Unreadable)?;
                if highest < *VERSIONS.start() || lowest > *VERSIONS.end() {
                    return Err(Discord::Version(lowest, highest, String::new()));
                }
                self.theirs = nonce;
                self.stage = Stage::Proof;
                let proof = key.proof(self.role, &self.nonce, &self.theirs);
                Ok(Next::Say(Kind::Proof, proof.as_ref().to_vec()))
            }
            (Kind::Proof, Stage::Proof, Some(key)) => {
                if !key.is_proved(self.role, &self.nonce, &self.theirs, head) {
                    return Err(Discord::Key(KeyProblem::Another));
                }
                self.stage = Stage::Hello;
                let mut hello = Vec::new();
                self.ours.encode(&mut hello);
                Ok(Next::Say(Kind::Hello, hello))
            }
            (Kind::Hello, Stage::Hello, _) => self.agree(head),
            (Kind::Hello, Stage::Challenge, Some(_)) => Err(Discord::Key(KeyProblem::TheyHaveNone)),
            (Kind::Challenge, Stage::Hello, None) => Err(Discord::Key(KeyProblem::WeHaveNone)),
            _ => Err(Discord::Unreadable),
        }
    }

    fn agree(&mut self, head: &[u8]) -> Result<Next, Discord> {
        let theirs = Hello::decode(head).ok_or(Discord::Unreadable)?;
        let Some(version) = self.ours.agree(&theirs) else {
            return Err(Discord::Version(theirs.lowest, theirs.highest, theirs.name));
        };
        match theirs.identity == self.ours.identity {
            true => Ok(Next::Agreed(version, theirs)),
            false => Err(Discord::Elsewhere(theirs)),
        }
    }
}

/// Lowest and highest version, and the nonce; what later versions append is passed over.
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

    /// Lets two ends speak until one is content or objects; what the first to object says, and all that was said.
    fn speak(first: Option<&[u8]>, second: Option<&[u8]>) -> (Result<[String; 2], Discord>, Vec<u8>) {
        let (mut one, mut said_by_one) = end("one", first, Role::Connecting);
        let (mut two, mut said_by_two) = end("two", second, Role::Listening);
        let mut heard = [said_by_one.1.clone(), said_by_two.1.clone()].concat();
        loop {
            let at_two = two.take(said_by_one.0, &said_by_one.1);
            let at_one = one.take(said_by_two.0, &said_by_two.1);
            match (at_one, at_two) {
                (Ok(Next::Say(kind, head)), Ok(Next::Say(other_kind, other_head))) => {
                    heard.extend(head.iter().chain(&other_head));
                    (said_by_one, said_by_two) = ((kind, head), (other_kind, other_head));
                }
                (Ok(Next::Agreed(_, two)), Ok(Next::Agreed(_, one))) => {
                    return (Ok([one.name, two.name]), heard);
                }
                (Err(discord), _) | (_, Err(discord)) => return (Err(discord), heard),
                (one, two) => panic!("{one:?} at one end, {two:?} at the other"),
            }
        }
    }

    #[test]
    fn ends_with_one_key_or_none_know_each_other() {
        let key = Some(b"a key of all units".as_slice());
        for key in [key, None] {
            assert_eq!(speak(key, key).0.expect("agreed"), ["one", "two"]);
        }
    }

    #[test]
    fn nothing_of_the_run_is_said_to_an_end_without_the_key() {
        let (key, other) = (Some(b"a key of all units".as_slice()), Some(b"another key, longer".as_slice()));
        let (discord, said) = speak(key, other);
        assert!(matches!(discord, Err(Discord::Key(KeyProblem::Another))), "{discord:?}");
        let has = |what: &[u8]| said.windows(what.len()).any(|bytes| bytes == what);
        assert!(!has(b"one") && !has(b"two") && !has(&0xfeed_beef_u64.to_le_bytes()) && !has(b"41"));
        assert!(matches!(speak(None, key).0, Err(Discord::Key(KeyProblem::WeHaveNone))));
        assert!(matches!(speak(key, None).0, Err(Discord::Key(KeyProblem::TheyHaveNone))));
    }

    proptest! {
        #[test]
        fn no_sequence_of_foreign_frames_gets_past_the_proof(
            frames in proptest::collection::vec((0u8..4, proptest::collection::vec(any::<u8>(), 0..80)), 0..8)
        ) {
            let (mut unit, _) = end("unit", Some(b"a key of all units"), Role::Listening);
            for (kind, head) in frames {
                let kind = [Kind::Challenge, Kind::Proof, Kind::Hello, Kind::Heartbeat][usize::from(kind)];
                match unit.take(kind, &head) {
                    Ok(Next::Say(Kind::Proof, _)) => {}
                    Ok(other) => prop_assert!(false, "{other:?}"),
                    Err(_) => break,
                }
            }
            prop_assert!(!unit.may_name_itself());
        }
    }
}
