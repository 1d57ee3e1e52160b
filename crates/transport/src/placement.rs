//! Binds threads to cores and gives them a priority; lists the cores and NUMA nodes of this machine.
//!
//! ```text
//!  /sys, the process's allowed cores ─► Machine ─ has it these cores? ─► Place ─ stand_here ─► the calling thread, for a while
//!                                                                                  └─ threads and memory that it makes meanwhile
//! ```
//! To place a thread, start it from a thread that is placed: new threads inherit cores and priority, and new memory comes
//! from the NUMA node of the core that touches it first.

use std::io;
use std::path::Path;

use crate::system::scheduling::{self, allow_cores, allowed_cores, priority, set_priority};

/// The cores and the priority of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// It runs on one of these cores; if empty, on any that the process may use.
    pub cores: Vec<usize>,
    /// Real-time priority, 1 to 99 (`SCHED_FIFO`): it runs before threads with a lower one or none.
    pub priority: Option<u8>,
}

/// The system refuses a [`Place`].
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// It refuses the cores.
    #[error("the system refuses the cores {}: {cause}", list_text(cores))]
    Cores {
        /// The cores asked for.
        cores: Vec<usize>,
        /// The system's error.
        cause: io::Error,
    },
    /// It refuses the priority.
    #[error(
        "the system refuses real-time priority {priority}: {cause}; it needs CAP_SYS_NICE or a limit \
         (`ulimit -r`, LimitRTPRIO=) of {priority} or more"
    )]
    Priority {
        /// The priority asked for.
        priority: u8,
        /// The system's error.
        cause: io::Error,
    },
}

/// Gives the calling thread, and those that it starts, the lowest priority for cores and disk, for as long as they live: for work that has
/// time, beside data taking.
///
/// # Errors
/// When the system refuses; the thread then goes on as before.
pub fn yield_to_others() -> io::Result<()> {
    scheduling::yield_to_others()
}

/// Keeps the calling thread at a [`Place`]; dropping it restores the earlier cores and priority.
#[derive(Debug)]
pub struct Standing {
    cores: Option<Vec<usize>>,
    priority: Option<u8>,
}

impl Place {
    /// Binds the calling thread to the cores and gives it the priority.
    ///
    /// # Errors
    /// When the system refuses either; the thread then keeps its earlier cores and priority.
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
    /// Makes the placement permanent.
    pub fn stay(mut self) {
        (self.cores, self.priority) = (None, None);
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        // The system allowed the earlier values before; if it has been reconfigured since and refuses them, nothing can be done.
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
    /// Number of the node.
    pub number: u32,
    /// Numbers of its cores.
    pub cores: Vec<usize>,
}

/// The cores and NUMA nodes of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Cores that are online.
    pub cores: Vec<usize>,
    /// Cores that this process may use.
    pub allowed: Vec<usize>,
    /// NUMA nodes; if the system reports none, node 0 with all cores.
    pub nodes: Vec<Node>,
}

impl Machine {
    /// This machine, with the cores that the calling thread may use.
    ///
    /// # Errors
    /// When the system does not report which cores may be used.
    pub fn this() -> io::Result<Machine> {
        Ok(Machine::read(Path::new("/sys/devices/system"), allowed_cores()?))
    }

    /// A machine as the files below `root` describe it, laid out as in `/sys/devices/system`.
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

    /// The node that a core belongs to.
    pub fn node_of(&self, core: usize) -> Option<u32> {
        self.nodes.iter().find(|node| node.cores.contains(&core)).map(|node| node.number)
    }
}

/// Reads a list as the kernel writes it, such as `0-3,8`; skips entries that are not numbers.
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

/// Writes a list as the kernel does, such as `0-3,8`.
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
    fn a_core_is_found_in_its_numa_node() {
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
    fn a_machine_that_reports_no_numa_nodes_has_one() {
        let machine = Machine::read(Path::new("/nowhere"), vec![0, 1]);
        assert_eq!(machine.nodes, [Node { number: 0, cores: vec![0, 1] }]);
    }

    #[test]
    fn a_thread_inherits_the_cores_of_the_thread_that_starts_it() {
        let allowed = allowed_cores().expect("readable");
        let core = *allowed.last().expect("one at least");
        let place = Place { cores: vec![core], priority: None };
        let standing = place.stand_here().expect("allowed");
        let started = std::thread::spawn(|| allowed_cores().expect("readable"));
        drop(standing);
        assert_eq!(started.join().expect("no panic"), [core]);
        assert_eq!(
            allowed_cores().expect("readable"),
            allowed,
            "the starting thread has its earlier cores again"
        );
    }

    #[test]
    fn a_core_that_does_not_exist_is_refused() {
        let refused = Place { cores: vec![MOST - 1], priority: None }.stand_here();
        assert!(refused.expect_err("no machine has so many").to_string().contains("8191"));
    }

    const MOST: usize = crate::system::scheduling::MOST_CORES;

    #[test]
    fn work_that_has_time_gets_the_lowest_priority() {
        let nice = || {
            yield_to_others().expect("everybody may have less");
            let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("a thread");
            // Fields behind the name, which is in brackets: the state is the third of all, the niceness the nineteenth.
            let fields = stat.rsplit(") ").next().unwrap_or_default().to_owned();
            fields.split(' ').nth(16).map(str::to_owned)
        };
        let found = std::thread::spawn(nice).join().expect("no panic");
        assert_eq!(found.as_deref(), Some("19"));
    }

    #[test]
    fn a_priority_is_set_and_restored_or_refused_with_advice() {
        let place = Place { cores: Vec::new(), priority: Some(1) };
        match place.stand_here() {
            Ok(standing) => {
                assert_eq!(priority().expect("readable"), 1);
                drop(standing);
            }
            Err(error) => assert!(error.to_string().contains("CAP_SYS_NICE"), "{error}"),
        }
        assert_eq!(priority().expect("readable"), 0);
    }
}
