//! Which memory a pool is made of: the size of its pages, and the NUMA node they are on.
//!
//! ```text
//!  huge_pages, numa_node ─► anonymous mapping ─► (bound to a node) ─► every page touched ─► blocks
//! ```
//! Unless a node is named the kernel takes each page from the node of the core that touches it first: a pool that is made
//! on the core of its reader is near it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use memmap2::{Advice, MmapMut, MmapOptions, MmapRaw};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes of a huge page on the machines that this runs on.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Whether memory is made of large pages: fewer of them to look up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HugePages {
    /// Never, whatever the system prefers.
    Off,
    /// Where the system has them (transparent huge pages): without, everything works the same.
    #[default]
    Try,
    /// Of those that were reserved (`vm.nr_hugepages`); without enough of them the pool is refused.
    Require,
}

impl HugePages {
    /// The word in the configuration.
    pub const fn word(self) -> &'static str {
        match self {
            HugePages::Off => "off",
            HugePages::Try => "try",
            HugePages::Require => "require",
        }
    }

    /// What so many bytes take in pages of this kind.
    pub const fn occupied(self, bytes: usize) -> usize {
        match self {
            HugePages::Require => bytes.next_multiple_of(HUGE_PAGE_BYTES),
            HugePages::Off | HugePages::Try => bytes,
        }
    }
}

/// Which memory a pool is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The size of its pages.
    pub huge_pages: HugePages,
    /// The node it is on; without one, that of the core which makes the pool.
    pub numa_node: Option<u32>,
}

/// Gives a file that is going to be mapped so many bytes, all of them there: a page that a full disk does not have later would kill the
/// process.
///
/// # Errors
/// What the system says: that there is no room, above all.
pub fn reserve(file: &File, bytes: usize) -> io::Result<()> {
    // SAFETY: a call without pointers.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes as libc::off_t) } {
        0 => Ok(()),
        refused => Err(io::Error::from_raw_os_error(refused)),
    }
}

/// Why memory is not resident: the step that failed, and the error of the system.
pub(crate) enum ResidentError {
    Bytes(io::Error),
    Node(u32, io::Error),
}

/// Anonymous memory, touched so that no page fault is left for the run.
pub(crate) fn resident(bytes: usize, memory: Memory) -> Result<MmapRaw, ResidentError> {
    let mut options = MmapOptions::new();
    options.len(memory.huge_pages.occupied(bytes));
    if memory.huge_pages == HugePages::Require {
        options.huge(Some(HUGE_PAGE_BYTES.trailing_zeros() as u8));
    }
    let mut map = options.map_anon().map_err(ResidentError::Bytes)?;
    match memory.huge_pages {
        // Hints only: a kernel without large pages refuses them, and the pool works the same.
        HugePages::Off => drop(map.advise(Advice::NoHugePage)),
        HugePages::Try if bytes >= HUGE_PAGE_BYTES => drop(map.advise(Advice::HugePage)),
        HugePages::Try | HugePages::Require => {}
    }
    if let Some(node) = memory.numa_node {
        bind(&map, node).map_err(|cause| ResidentError::Node(node, cause))?;
    }
    match memory.huge_pages {
        // Where a node has no reserved page left, to touch the memory would end the process; to ask for it is refused.
        HugePages::Require => map.advise(Advice::PopulateWrite).map_err(ResidentError::Bytes)?,
        // Kernels before 5.14 do not know the advice.
        HugePages::Off | HugePages::Try if map.advise(Advice::PopulateWrite).is_err() => {
            map.iter_mut().step_by(4096).for_each(|byte| *byte = 0);
        }
        HugePages::Off | HugePages::Try => {}
    }
    Ok(map.into())
}

/// Binds memory that nobody has touched to one node.
fn bind(map: &MmapMut, node: u32) -> io::Result<()> {
    const WORD_BITS: u32 = libc::c_ulong::BITS;
    let mut nodes: [libc::c_ulong; 16] = [0; 16];
    let word = nodes.get_mut((node / WORD_BITS) as usize).ok_or(io::ErrorKind::InvalidInput)?;
    *word = 1 << (node % WORD_BITS);
    // The kernel takes one bit less than it is told.
    let bits = size_of_val(&nodes) * 8 + 1;
    // SAFETY: the range is a mapping of this process that `map` owns, and the mask lies on this stack frame; the call changes
    // where its pages come from, and none of its bytes.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            map.as_ptr(),
            map.len(),
            libc::c_long::from(libc::MPOL_BIND),
            nodes.as_ptr(),
            bits,
            0usize,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_page_can_be_written_or_is_refused() {
        for huge_pages in [HugePages::Off, HugePages::Try, HugePages::Require] {
            match resident(3 << 20, Memory { huge_pages, numa_node: None }) {
                Ok(map) => assert_eq!(map.len(), huge_pages.occupied(3 << 20)),
                Err(ResidentError::Bytes(cause)) => {
                    // None are reserved on most machines.
                    assert_eq!(huge_pages, HugePages::Require, "{cause}");
                }
                Err(ResidentError::Node(..)) => panic!("no node was asked for"),
            }
        }
    }

    #[test]
    fn the_node_that_is_there_is_taken_and_others_are_refused() {
        let on = |node| resident(1 << 16, Memory { huge_pages: HugePages::Try, numa_node: Some(node) });
        match on(0) {
            Ok(map) => assert_eq!(map.len(), 1 << 16),
            Err(ResidentError::Node(0, cause)) => {
                thalweg_prerequisite::skip(&format!("memory cannot be bound to a node: {cause}"))
            }
            Err(_) => panic!("nothing else is refused"),
        }
        for node in [1000, 5000] {
            assert!(matches!(on(node), Err(ResidentError::Node(found, _)) if found == node), "{node}");
        }
    }
}
