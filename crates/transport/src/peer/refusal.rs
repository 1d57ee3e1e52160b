//! Why an end refuses a connection: the reason for the other end, and the error of this one.

use super::error::{KeyProblem, PeerError};
use super::frame::FrameError;
use super::handshake::Disagreement;
use super::hello::{Hello, RunIdentity, VERSIONS};

/// Why an end refuses a connection.
pub(super) enum Refusal {
    /// The other end sent an invalid frame.
    Frame(FrameError),
    /// The ends do not agree in the handshake.
    Handshake(Disagreement),
    /// A frame of the handshake came after its end.
    AfterHandshake,
}

const UNREADABLE: &str = "a frame of the handshake cannot be read, or came out of turn";
const AFTER_HANDSHAKE: &str = "a frame of the handshake came after its end";

impl Refusal {
    /// The text for the other end from the end called `us`. It says what is wrong with the frames, not which URL they came to. The other end may
    /// be anybody, so the text reveals nothing by which it could pass the handshake next time.
    pub(super) fn words(&self, us: &str, ours: &RunIdentity) -> String {
        match self {
            Refusal::Frame(problem) => problem.to_string(),
            Refusal::AfterHandshake => AFTER_HANDSHAKE.to_owned(),
            Refusal::Handshake(Disagreement::Unreadable) => UNREADABLE.to_owned(),
            Refusal::Handshake(Disagreement::Key(KeyProblem::WeHaveNone)) => {
                format!(
                    "{us} has no key, and you ask for one; give all nodes the same [run] key_file or key_env"
                )
            }
            Refusal::Handshake(Disagreement::Key(KeyProblem::TheyHaveNone | KeyProblem::Another)) => {
                format!("{us} asks for the key of its run; give all nodes the same [run] key_file or key_env")
            }
            Refusal::Handshake(Disagreement::Version(lowest, highest, _)) => {
                let (first, last) = (VERSIONS.start(), VERSIONS.end());
                format!(
                    "{us} speaks versions {first} to {last}, you {lowest} to {highest}; install the same version on both hosts"
                )
            }
            Refusal::Handshake(Disagreement::Identity(theirs)) if is_of_another_run(theirs, ours) => {
                format!("{us} belongs to another run; end the nodes of the older one")
            }
            Refusal::Handshake(Disagreement::Identity(_)) => format!(
                "{us} was started with another configuration; start all nodes of a run from the same file"
            ),
        }
    }

    /// The error of this end at `place`.
    pub(super) fn into_error(self, place: String, ours: &RunIdentity) -> PeerError {
        let refused = |place, words: &str| PeerError::Refused { place, words: words.to_owned() };
        match self {
            Refusal::Frame(problem) => PeerError::Frame { place, problem },
            Refusal::AfterHandshake => refused(place, AFTER_HANDSHAKE),
            Refusal::Handshake(Disagreement::Unreadable) => refused(place, UNREADABLE),
            Refusal::Handshake(Disagreement::Key(problem)) => PeerError::Key { place, problem },
            Refusal::Handshake(Disagreement::Version(lowest, highest, name)) => {
                let ours = (*VERSIONS.start(), *VERSIONS.end());
                PeerError::Version { place, name, theirs: (lowest, highest), ours }
            }
            Refusal::Handshake(Disagreement::Identity(theirs)) => {
                let is_of_another_run = is_of_another_run(&theirs, ours);
                let (name, theirs, ours) = (theirs.name, theirs.identity, ours.clone());
                match is_of_another_run {
                    true => PeerError::Run { place, name, theirs: theirs.run, ours: ours.run },
                    false => PeerError::Configuration {
                        place,
                        name,
                        theirs: theirs.configuration,
                        ours: ours.configuration,
                    },
                }
            }
        }
    }
}

/// Whether a unit of another identity has our configuration.
fn is_of_another_run(theirs: &Hello, ours: &RunIdentity) -> bool {
    theirs.identity.configuration == ours.configuration
}
