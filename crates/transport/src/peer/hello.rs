//! Who speaks, and which version: what two ends say first.
//!
//! ```text
//!  Hello { versions, longest payload, name, identity } ⇄ Hello ─► the version agreed upon, or a refusal in words
//! ```
//! Sans-I/O. Both ends say it at once and decide alike: the highest version that both speak, and only among units of one run that were
//! started with one configuration.

/// Versions of the framing that this build speaks.
pub const VERSIONS: std::ops::RangeInclusive<u16> = 1..=1;
/// Longest name of a unit, bytes.
pub const LONGEST_NAME: usize = 200;

/// What units that are to work together have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunIdentity {
    /// Digest of what all of them must have been configured with alike.
    pub configuration: u64,
    /// The run, in words of its operator: at most 200 bytes without control characters; empty if nobody said.
    pub run: String,
}

/// What one end says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Lowest version that it speaks.
    pub lowest: u16,
    /// Highest version that it speaks.
    pub highest: u16,
    /// Longest payload of a message that it takes, bytes.
    pub longest_payload_bytes: u64,
    /// The unit's name.
    pub name: String,
    /// To whom it belongs.
    pub identity: RunIdentity,
}

impl Hello {
    /// What this build says.
    pub fn of(name: &str, longest_payload_bytes: u64) -> Hello {
        Hello {
            lowest: *VERSIONS.start(),
            highest: *VERSIONS.end(),
            longest_payload_bytes,
            name: name.to_owned(),
            identity: RunIdentity::default(),
        }
    }

    /// The head of a hello frame: lowest and highest version, longest payload, length of the name, name, digest of the configuration, length
    /// of the run's name, that name.
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

    /// Reads the head of a hello frame; what later versions append is passed over. `None` when it is none.
    pub fn decode(head: &[u8]) -> Option<Hello> {
        let (lowest, rest) = head.split_first_chunk()?;
        let (highest, rest) = rest.split_first_chunk()?;
        let (longest, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (name, rest) = cut_name(length, rest)?;
        // One that says nothing of it belongs nowhere.
        let identity = match rest.split_first_chunk() {
            None => RunIdentity::default(),
            Some((configuration, rest)) => {
                let (length, rest) = rest.split_first_chunk()?;
                let (run, _) = cut_name(length, rest)?;
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

    /// The highest version that both speak.
    pub fn agree(&self, other: &Hello) -> Option<u16> {
        let highest = self.highest.min(other.highest);
        (highest >= self.lowest.max(other.lowest)).then_some(highest)
    }
}

/// Cuts a name off that has its length before it.
fn cut_name<'h>(length: &[u8; 2], rest: &'h [u8]) -> Option<(&'h str, &'h [u8])> {
    let (name, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    let name = std::str::from_utf8(name).ok().filter(|name| is_name(name))?;
    Some((name, rest))
}

/// Whether a unit may be called so: it is shown on terminals and pages, so it holds no control characters.
pub fn is_name(name: &str) -> bool {
    name.len() <= LONGEST_NAME && !name.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_highest_common_version_is_taken() {
        let speaks = |lowest, highest| Hello { lowest, highest, ..Hello::of("unit", 0) };
        assert_eq!(speaks(1, 3).agree(&speaks(2, 5)), Some(3));
        assert_eq!(speaks(2, 5).agree(&speaks(1, 3)), Some(3));
        assert_eq!(speaks(1, 1).agree(&speaks(2, 5)), None);
    }

    #[test]
    fn names_that_would_paint_a_terminal_are_refused() {
        let mut head = Vec::new();
        Hello::of("\x1b[31mred", 5).encode(&mut head);
        assert_eq!(Hello::decode(&head), None);
    }

    #[test]
    fn a_hello_that_does_not_say_where_it_belongs_belongs_nowhere() {
        let (mut head, hello) = (Vec::new(), Hello::of("unit", 5));
        hello.encode(&mut head);
        head.truncate(2 + 2 + 8 + 2 + "unit".len());
        assert_eq!(Hello::decode(&head), Some(hello));
    }

    proptest! {
        #[test]
        fn a_hello_comes_out_as_it_went_in(name in "[a-zµ0-9 .-]{0,60}", longest: u64, configuration: u64, run in "[a-z0-9]{0,9}") {
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
