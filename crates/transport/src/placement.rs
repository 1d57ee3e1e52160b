//! Where threads run: on which cores, before whom; and which cores and NUMA nodes this machine has.
//!
//! ```text
//!  /sys, the process's allowed cores ─► Machine ─ is it there? ─► Place ─ here ─► the calling thread, for a while
//!                                                                          └─ threads and memory that it makes meanwhile
//! ```
//! A thread is placed by being made on a thread that stands there: new threads take the cores and the priority of their
//! maker, and new memory is taken from the node of the core that touches it first.

use std::io;
use std::path::Path;

use crate::system::scheduling::{allow_cores, allowed_cores, priority, set_priority};

/// Where a thread is to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// On one of these cores; empty: on any that the process may use.
    pub cores: Vec<usize>,
    /// Before every thread without, and those of a lower one (`SCHED_FIFO`, 1 to 99).
    pub priority: Option<u8>,
}

/// A place that the system refuses.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// Of the cores.
    #[error("the system refuses the cores {}: {cause}", list_text(cores))]
    Cores {
        /// Asked for.
        cores: Vec<usize>,
        /// What the system said.
        cause: io::Error,
    },
    /// Of the priority.
    #[error(
        "the system refuses real-time priority {priority}: {cause}; it needs CAP_SYS_NICE or a limit \
         (`ulimit -r`, LimitRTPRIO=) of {priority} or more"
    )]
    Priority {
        /// Asked for.
        priority: u8,
        /// What the system said.
        cause: io::Error,
    },
}

/// The calling thread stands at a [`Place`] until this is dropped, then where it stood before.
#[derive(Debug)]
pub struct Standing {
    cores: Option<Vec<usize>>,
    priority: Option<u8>,
}

impl Place {
    /// Moves the calling thread there.
    ///
    /// # Errors
    /// When the system refuses it: the thread stands where it stood.
    pub fn stand_here(&self) -> Result<Standing, PlaceError> {
        let mut standing = Standing { cores: None, priority: None };
        if !self.cores.is_empty() {
            let refused = |cause| PlaceError::Cores { cores: self.cores.clone(), cause };
            let before = allowed_cores().map_err(refused)?;
            allow_cores(&self.cores).map_err(refused)?;
            standing.cores = Some(before);
        }
        if let Some(wanted) = self.priority {
            let refused = |cause| PlaceError::Priority { priority: wanted, cause };
            let before = priority().map_err(refused)?;
            set_priority(wanted).map_err(refused)?;
            standing.priority = Some(before);
        }
        Ok(standing)
    }
}

impl Standing {
    /// Stays there for good.
    pub fn stay(mut self) {
        (self.cores, self.priority) = (None, None);
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        // What was allowed a moment ago is allowed now, unless the system was changed meanwhile; then it has its way.
        if let Some(priority) = self.priority {
            let _ = set_priority(priority);
        }
        if let Some(cores) = &self.cores {
            let _ = allow_cores(cores);
        }
    }
}

/// A NUMA node: cores with memory of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its number.
    pub number: u32,
    /// Its cores.
    pub cores: Vec<usize>,
}

/// What this machine has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Cores that there are.
    pub cores: Vec<usize>,
    /// Those that this process may use.
    pub allowed: Vec<usize>,
    /// Its nodes; node 0 with all cores where the system knows of none.
    pub nodes: Vec<Node>,
}

impl Machine {
    /// This one, as seen from the calling thread.
    ///
    /// # Errors
    /// When the system does not say which cores may be used.
    pub fn this() -> io::Result<Machine> {
        Ok(Machine::read(Path::new("/sys/devices/system"), allowed_cores()?))
    }

    /// As described by the files of the system under `root`.
    pub fn read(root: &Path, allowed: Vec<usize>) -> Machine {
        let list = |file: &str| std::fs::read_to_string(root.join(file)).ok().map(|text| parse_list(&text));
        let cores = list("cpu/online").unwrap_or_else(|| allowed.clone());
        let numbers = list("node/online").unwrap_or_default();
        let node = |number: usize| {
            Some(Node { number: number as u32, cores: list(&format!("node/node{number}/cpulist"))? })
        };
        let mut nodes: Vec<Node> = numbers.into_iter().filter_map(node).collect();
        if nodes.is_empty() {
            nodes.push(Node { number: 0, cores: cores.clone() });
        }
        Machine { cores, allowed, nodes }
    }

    /// The node of a core.
    pub fn node_of(&self, core: usize) -> Option<u32> {
        self.nodes.iter().find(|node| node.cores.contains(&core)).map(|node| node.number)
    }
}

/// Reads `0-3,8`, as the kernel writes lists; what is not a number is left out.
fn parse_list(text: &str) -> Vec<usize> {
    let mut numbers = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            numbers.extend(first..=last.min(first + crate::system::scheduling::MOST_CORES));
        }
    }
    numbers
}

/// Numbers as the kernel writes them: `0-3,8`.
pub fn list_text(numbers: &[usize]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = numbers;
    while let Some(first) = rest.first() {
        let run = rest.iter().enumerate().take_while(|(index, number)| **number == first + index).count();
        parts.push(match run {
            1 => first.to_string(),
            _ => format!("{first}-{}", first + run - 1),
        });
        rest = &rest[run..];
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written_as_the_kernel_does() {
        for (text, numbers) in
            [("0-3,8", vec![0, 1, 2, 3, 8]), ("5", vec![5]), ("", vec![]), ("0,2", vec![0, 2])]
        {
            assert_eq!(parse_list(&format!("{text}\n")), numbers);
            assert_eq!(list_text(&numbers), text);
        }
        assert_eq!(parse_list("x-3,7,-"), [7]);
    }

    #[test]
    fn two_nodes_are_distinguished() {
        let root = std::env::temp_dir().join(format!("thalweg-nodes-{}", std::process::id()));
        for (file, text) in [
            ("cpu/online", "0-7"),
            ("node/online", "0-1"),
            ("node/node0/cpulist", "0-3"),
            ("node/node1/cpulist", "4-7"),
        ] {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        let machine = Machine::read(&root, vec![0, 1, 4]);
        std::fs::remove_dir_all(&root).expect("removed");
        assert_eq!(machine.nodes.len(), 2);
        assert_eq!(
            [0, 3, 4, 7, 8].map(|core| machine.node_of(core)),
            [Some(0), Some(0), Some(1), Some(1), None]
        );
    }

    #[test]
    fn a_machine_that_says_nothing_has_one_node() {
        let machine = Machine::read(Path::new("/nowhere"), vec![0, 1]);
        assert_eq!(machine.nodes, [Node { number: 0, cores: vec![0, 1] }]);
    }

    #[test]
    fn threads_that_are_made_at_a_place_stay_there() {
        let allowed = allowed_cores().expect("told");
        let core = *allowed.last().expect("one at least");
        let place = Place { cores: vec![core], priority: None };
        let standing = place.stand_here().expect("allowed");
        let made = std::thread::spawn(|| allowed_cores().expect("told"));
        drop(standing);
        assert_eq!(made.join().expect("no panic"), [core]);
        assert_eq!(allowed_cores().expect("told"), allowed, "and its maker is back");
    }

    #[test]
    fn a_core_that_is_not_there_is_refused() {
        let refused = Place { cores: vec![MOST - 1], priority: None }.stand_here();
        assert!(refused.expect_err("no machine has so many").to_string().contains("8191"));
    }

    const MOST: usize = crate::system::scheduling::MOST_CORES;

    #[test]
    fn a_priority_is_given_and_taken_back_or_refused_with_a_word() {
        let place = Place { cores: Vec::new(), priority: Some(1) };
        match place.stand_here() {
            Ok(standing) => {
                assert_eq!(priority().expect("told"), 1);
                drop(standing);
            }
            Err(error) => assert!(error.to_string().contains("CAP_SYS_NICE"), "{error}"),
        }
        assert_eq!(priority().expect("told"), 0);
    }
}
