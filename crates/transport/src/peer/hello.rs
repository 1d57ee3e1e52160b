//! The hello, in which an end says who it is and which versions it supports.
//!
//! ```text
//!  Hello { versions, longest payload, name, identity } ⇄ Hello ─► the agreed version, or a refusal with its reason
//! ```
//! Sans-I/O. Both ends send their hello at once and decide in the same way: they agree on the highest common version, if they have
//! the same run and configuration.

/// Versions of the framing that this build supports.
pub const VERSIONS: std::ops::RangeInclusive<u16> = 1..=1;
/// Maximum length of a unit's name, bytes.
pub const LONGEST_NAME: usize = 200;

/// The run and the configuration that units must have in common to connect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunIdentity {
    /// Digest of the configuration that all units of a run share.
    pub configuration: u64,
    /// The operator's name for the run: at most 200 bytes without control characters; empty if there is none.
    pub run: String,
}

/// What an end says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Lowest version that it supports.
    pub lowest: u16,
    /// Highest version that it supports.
    pub highest: u16,
    /// Longest payload of a message that it accepts, bytes.
    pub longest_payload_bytes: u64,
    /// The unit's name.
    pub name: String,
    /// Its run and configuration.
    pub identity: RunIdentity,
}

impl Hello {
    /// A hello of this build, without an identity.
    pub fn of(name: &str, longest_payload_bytes: u64) -> Hello {
        Hello {
            lowest: *VERSIONS.start(),
            highest: *VERSIONS.end(),
            longest_payload_bytes,
            name: name.to_owned(),
            identity: RunIdentity::default(),
        }
    }

    /// Appends the head of a hello frame: lowest and highest version, longest payload, length of the name, name, digest of the
    /// configuration, length of the run's name, the run's name.
    pub fn encode(&self, head: &mut Vec<u8>) {
        head.extend(self.lowest.to_le_bytes());
        head.extend(self.highest.to_le_bytes());
        head.extend(self.longest_payload_bytes.to_le_bytes());
        head.extend((self.name.len() as u16).to_le_bytes());
        head.extend(self.name.as_bytes());
        head.extend(self.identity.configuration.to_le_bytes());
        head.extend((self.identity.run.len() as u16).to_le_bytes());
        head.extend(self.identity.run.as_bytes());
    }

    /// Reads the head of a hello frame; ignores what later versions append. `None` when it is invalid.
    pub fn decode(head: &[u8]) -> Option<Hello> {
        let (lowest, rest) = head.split_first_chunk()?;
        let (highest, rest) = rest.split_first_chunk()?;
        let (longest, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (name, rest) = split_name(length, rest)?;
        // A hello may end before the identity.
        let identity = match rest.split_first_chunk() {
            None => RunIdentity::default(),
            Some((configuration, rest)) => {
                let (length, rest) = rest.split_first_chunk()?;
                let (run, _) = split_name(length, rest)?;
                RunIdentity { configuration: u64::from_le_bytes(*configuration), run: run.to_owned() }
            }
        };
        Some(Hello {
            lowest: u16::from_le_bytes(*lowest),
            highest: u16::from_le_bytes(*highest),
            longest_payload_bytes: u64::from_le_bytes(*longest),
            name: name.to_owned(),
            identity,
        })
    }

    /// The highest common version, if there is one.
    pub fn agree(&self, other: &Hello) -> Option<u16> {
        let highest = self.highest.min(other.highest);
        (highest >= self.lowest.max(other.lowest)).then_some(highest)
    }
}

/// Splits a name of the given length from the rest.
fn split_name<'h>(length: &[u8; 2], rest: &'h [u8]) -> Option<(&'h str, &'h [u8])> {
    let (name, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    let name = std::str::from_utf8(name).ok().filter(|name| is_name(name))?;
    Some((name, rest))
}

/// Whether a name is valid: it is shown on terminals and pages, so it has no control characters.
pub fn is_name(name: &str) -> bool {
    name.len() <= LONGEST_NAME && !name.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ends_agree_on_the_highest_common_version() {
        let hello = |lowest, highest| Hello { lowest, highest, ..Hello::of("unit", 0) };
        assert_eq!(hello(1, 3).agree(&hello(2, 5)), Some(3));
        assert_eq!(hello(2, 5).agree(&hello(1, 3)), Some(3));
        assert_eq!(hello(1, 1).agree(&hello(2, 5)), None);
    }

    #[test]
    fn names_with_control_characters_are_refused() {
        let mut head = Vec::new();
        Hello::of("\x1b[31mred", 5).encode(&mut head);
        assert_eq!(Hello::decode(&head), None);
    }

    #[test]
    fn a_hello_that_ends_before_the_identity_has_the_default_one() {
        let (mut head, hello) = (Vec::new(), Hello::of("unit", 5));
        hello.encode(&mut head);
        head.truncate(2 + 2 + 8 + 2 + "unit".len());
        assert_eq!(Hello::decode(&head), Some(hello));
    }

    proptest! {
        #[test]
        fn a_hello_is_decoded_as_it_was_encoded(name in "[a-zµ0-9 .-]{0,60}", longest: u64, configuration: u64, run in "[a-z0-9]{0,9}") {
            let identity = RunIdentity { configuration, run };
            let (hello, mut head) = (Hello { identity, ..Hello::of(&name, longest) }, Vec::new());
            hello.encode(&mut head);
            head.push(77);
            prop_assert_eq!(Hello::decode(&head), Some(hello));
        }

        #[test]
        fn any_bytes_are_read_without_panic(head in proptest::collection::vec(any::<u8>(), 0..100)) {
            Hello::decode(&head);
        }
    }
}
