//! The key that the units of a run share, and the proof of each end of a connection that it has the key.
//!
//! ```text
//!  Challenge { nonce a } ⇄ Challenge { nonce b }
//!  proof = HMAC-SHA-256(key, "thalweg peer proof 1" · role of the prover · its nonce · the other nonce)
//! ```
//! The key never leaves the process. A proof is valid for only one connection, because both nonces are fresh, and for only one
//! direction, because it contains the role: a proof that is sent back to its sender is invalid. Other protocols between hosts prove with
//! another purpose, so that a proof of one protocol is invalid in the other. An attacker who can change bytes on
//! the way can wait until both ends have proved themselves: the messages after that are neither encrypted nor signed.

use std::fmt;

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use super::error::PeerError;

/// Minimum length of a key, bytes: 128 bits if they are random.
pub const SHORTEST_KEY: usize = 16;
/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 32;
/// The purpose of a proof between units.
const PEERS: &str = "thalweg peer proof 1";

/// A random number that an end sends as its challenge.
pub type Nonce = [u8; NONCE_BYTES];

/// Which end of a connection a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The end that has connected.
    Connecting,
    /// The end that has accepted.
    Listening,
}

impl Role {
    fn other(self) -> Role {
        match self {
            Role::Connecting => Role::Listening,
            Role::Listening => Role::Connecting,
        }
    }
}

/// A secret that all units of a run have. Its `Debug` output does not show it.
#[derive(Clone)]
pub struct SharedKey(hmac::Key);

impl fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedKey(…)")
    }
}

impl SharedKey {
    /// A key of these bytes, which are the same for all units of a run.
    ///
    /// # Errors
    /// When it is shorter than [`SHORTEST_KEY`].
    pub fn new(secret: &[u8]) -> Result<SharedKey, PeerError> {
        if secret.len() < SHORTEST_KEY {
            return Err(PeerError::Settings(format!(
                "the units' key has {} bytes; write at least {SHORTEST_KEY}, such as the output of `openssl rand -hex 32`",
                secret.len()
            )));
        }
        Ok(SharedKey(hmac::Key::new(hmac::HMAC_SHA256, secret)))
    }

    /// The proof that the end with this role and nonce has the key.
    pub(super) fn proof(&self, role: Role, own: &Nonce, others: &Nonce) -> hmac::Tag {
        self.sign(PEERS, role, own, others)
    }

    /// The same in another protocol, which `purpose` names.
    pub fn sign(&self, purpose: &str, role: Role, own: &Nonce, others: &Nonce) -> hmac::Tag {
        hmac::sign(&self.0, &signed(purpose, role, own, others))
    }

    /// Whether `proof` proves that the other end has the key. Takes the same time for every wrong proof.
    pub(super) fn is_proved(&self, our_role: Role, ours: &Nonce, theirs: &Nonce, proof: &[u8]) -> bool {
        self.is_signed(PEERS, our_role, ours, theirs, proof)
    }

    /// The same in another protocol, which `purpose` names.
    pub fn is_signed(
        &self,
        purpose: &str,
        our_role: Role,
        ours: &Nonce,
        theirs: &Nonce,
        proof: &[u8],
    ) -> bool {
        hmac::verify(&self.0, &signed(purpose, our_role.other(), theirs, ours), proof).is_ok()
    }
}

fn signed(purpose: &str, role: Role, own: &Nonce, others: &Nonce) -> Vec<u8> {
    let role = match role {
        Role::Connecting => 0,
        Role::Listening => 1,
    };
    [purpose.as_bytes(), &[role], own, others].concat()
}

/// A new nonce of unpredictable bytes.
///
/// # Errors
/// When the system has no random numbers.
pub fn fresh_nonce() -> Result<Nonce, PeerError> {
    let mut nonce = [0; NONCE_BYTES];
    let missing = |_| PeerError::System {
        place: "this host".to_owned(),
        call: "getrandom",
        cause: std::io::Error::other("no random numbers"),
    };
    SystemRandom::new().fill(&mut nonce).map_err(missing)?;
    Ok(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_valid_for_its_key_its_nonces_and_its_direction_only() {
        let key = SharedKey::new(b"0123456789abcdef").expect("long enough");
        let [ours, theirs, older] = [[1; NONCE_BYTES], [2; NONCE_BYTES], [3; NONCE_BYTES]];
        let proof = key.proof(Role::Connecting, &theirs, &ours);
        let is_proved =
            |key: &SharedKey, ours, proof: &[u8]| key.is_proved(Role::Listening, ours, &theirs, proof);
        assert!(is_proved(&key, &ours, proof.as_ref()));
        assert!(!is_proved(&key, &older, proof.as_ref()), "a proof of another connection");
        assert!(!is_proved(&key, &ours, &proof.as_ref()[..31]), "a truncated proof");
        let other = SharedKey::new(b"0123456789abcdeF").expect("long enough");
        assert!(!is_proved(&other, &ours, proof.as_ref()));
        assert!(!key.is_signed("another protocol", Role::Listening, &ours, &theirs, proof.as_ref()));
        // Our own proof, sent back.
        let reflected = key.proof(Role::Listening, &ours, &theirs);
        assert!(!key.is_proved(Role::Listening, &ours, &ours, reflected.as_ref()));
        assert!(!is_proved(&key, &ours, reflected.as_ref()));
    }

    #[test]
    fn a_short_key_is_refused_and_no_key_is_printed() {
        let message = SharedKey::new(b"secret").expect_err("short").to_string();
        assert!(message.contains("6 bytes") && message.contains("at least 16"), "{message}");
        let key = SharedKey::new(b"0123456789abcdef").expect("long enough");
        assert_eq!(format!("{key:?}"), "SharedKey(…)");
    }
}
