//! The memory of a pool: page size, NUMA node, and whether other processes can read it.
//!
//! ```text
//!  huge_pages, numa_node ─► anonymous mapping ─┐
//!  is_shared ─► sealed memory (memfd), mapped ─┴► (bound to a node) ─► every page touched ─► blocks
//! ```
//! Without a named node, the kernel takes each page from the node of the core that touches it first: a pool that is made
//! on the core of its reader is near that core. Memory that other processes read is sealed against a change of its size
//! (`memfd_create(2)`), so that no process can cause an access fault in another one.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd};

use memmap2::{Advice, MmapMut, MmapOptions, MmapRaw};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes of a huge page on the supported machines.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Bytes of a normal page on them.
const PAGE_BYTES: usize = 4096;

/// Whether memory is mapped with huge pages, which need fewer TLB entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HugePages {
    /// No huge pages, even if the system would use them by default.
    Off,
    /// Transparent huge pages where the system has them, normal pages elsewhere.
    #[default]
    Try,
    /// Reserved huge pages (`vm.nr_hugepages`); without enough of them, the pool is refused.
    Require,
}

impl HugePages {
    /// The name in the configuration.
    pub const fn word(self) -> &'static str {
        match self {
            HugePages::Off => "off",
            HugePages::Try => "try",
            HugePages::Require => "require",
        }
    }

    /// Memory that `bytes` bytes occupy in pages of this kind, bytes.
    pub const fn occupied(self, bytes: usize) -> usize {
        match self {
            HugePages::Require => bytes.next_multiple_of(HUGE_PAGE_BYTES),
            HugePages::Off | HugePages::Try => bytes,
        }
    }
}

/// The memory of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The size of its pages.
    pub huge_pages: HugePages,
    /// The NUMA node; without one, the node of the core on which the pool is made.
    pub numa_node: Option<u32>,
    /// Whether other processes of this host can be given the right to read it.
    pub is_shared: bool,
}

const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// Memory of `bytes` bytes that other processes can map, sealed against a change of its size. [`reserve`] allocates it.
///
/// # Errors
/// The error of the system.
pub fn create_shared(bytes: usize, huge_pages: HugePages) -> io::Result<File> {
    let pages = if huge_pages == HugePages::Require { libc::MFD_HUGETLB | libc::MFD_HUGE_2MB } else { 0 };
    // SAFETY: the name is a C string; the call keeps no pointer.
    let memory = unsafe {
        libc::memfd_create(c"thalweg".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | pages)
    };
    if memory < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    let memory = unsafe { File::from_raw_fd(memory) };
    memory.set_len(bytes as u64)?;
    // SAFETY: a call without pointers.
    let sealed = unsafe { libc::fcntl(memory.as_raw_fd(), libc::F_ADD_SEALS, SEALS) };
    if sealed == 0 { Ok(memory) } else { Err(io::Error::last_os_error()) }
}

/// Bytes of a memory that is sealed as by [`create_shared`]; `None` for any other file.
///
/// # Errors
/// The error of the system.
pub fn sealed_bytes(memory: &File) -> io::Result<Option<u64>> {
    // SAFETY: a call without pointers. A descriptor that cannot be sealed answers with an error.
    let seals = unsafe { libc::fcntl(memory.as_raw_fd(), libc::F_GET_SEALS) };
    if seals < 0 || seals & SEALS != SEALS {
        return Ok(None);
    }
    memory.metadata().map(|facts| Some(facts.len()))
}

/// Allocates `bytes` bytes on disk for a file that will be mapped. Without that, a store into the mapping kills the process once the disk
/// is full.
///
/// # Errors
/// The error of the system, in most cases that the disk is full.
pub fn reserve(file: &File, bytes: usize) -> io::Result<()> {
    // SAFETY: a call without pointers.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes as libc::off_t) } {
        0 => Ok(()),
        refused => Err(io::Error::from_raw_os_error(refused)),
    }
}

/// Why memory could not be made resident: the step that failed, and the error of the system.
pub(crate) enum ResidentError {
    Bytes(io::Error),
    Node(u32, io::Error),
}

/// Memory whose every page is there.
pub(crate) struct Resident {
    pub(crate) map: MmapRaw,
    /// What is mapped, if other processes can map it, too.
    pub(crate) file: Option<File>,
}

/// Maps memory and touches every page, so that the run has no page faults.
pub(crate) fn resident(bytes: usize, memory: Memory) -> Result<Resident, ResidentError> {
    let (mut map, file) = match memory.is_shared {
        true => map_shared(bytes, memory.huge_pages).map(|(map, file)| (map, Some(file))),
        false => map_anonymous(bytes, memory.huge_pages).map(|map| (map, None)),
    }
    .map_err(ResidentError::Bytes)?;
    match memory.huge_pages {
        // Only hints: a kernel without huge pages refuses them, and the pool works without.
        HugePages::Off => drop(map.advise(Advice::NoHugePage)),
        HugePages::Try if bytes >= HUGE_PAGE_BYTES => drop(map.advise(Advice::HugePage)),
        HugePages::Try | HugePages::Require => {}
    }
    if let Some(node) = memory.numa_node {
        bind(&map, node).map_err(|cause| ResidentError::Node(node, cause))?;
    }
    if let Some(file) = &file {
        // On the bound node. Without room for it, touching the memory would kill the process, but this call returns an error.
        reserve(file, memory.huge_pages.occupied(bytes)).map_err(ResidentError::Bytes)?;
    }
    match memory.huge_pages {
        // If the node has no reserved page left, touching the memory would kill the process, but this call returns an error.
        HugePages::Require => map.advise(Advice::PopulateWrite).map_err(ResidentError::Bytes)?,
        // Kernels before 5.14 do not have this advice.
        HugePages::Off | HugePages::Try if map.advise(Advice::PopulateWrite).is_err() => {
            map.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 0);
        }
        HugePages::Off | HugePages::Try => {}
    }
    Ok(Resident { map: map.into(), file })
}

fn map_anonymous(bytes: usize, huge_pages: HugePages) -> io::Result<MmapMut> {
    let mut options = MmapOptions::new();
    options.len(huge_pages.occupied(bytes));
    if huge_pages == HugePages::Require {
        options.huge(Some(HUGE_PAGE_BYTES.trailing_zeros() as u8));
    }
    options.map_anon()
}

fn map_shared(bytes: usize, huge_pages: HugePages) -> io::Result<(MmapMut, File)> {
    let bytes = huge_pages.occupied(bytes);
    let file = create_shared(bytes, huge_pages)?;
    // SAFETY: the file has just been made, nobody else has it, and its size is sealed. Others that are given it later map it for
    // reading only, as blocks on loan.
    let map = unsafe { MmapOptions::new().len(bytes).map_mut(&file)? };
    Ok((map, file))
}

/// Asks for huge pages for the memory of a large table that is to be accessed all over, before the table is filled. Only a hint: where
/// the system has none, the table has normal pages.
pub fn prefer_huge_pages<T>(untouched: &mut [MaybeUninit<T>]) {
    let bytes = untouched.as_mut_ptr_range();
    let (first, behind) =
        ((bytes.start as usize).next_multiple_of(PAGE_BYTES), bytes.end as usize / PAGE_BYTES * PAGE_BYTES);
    if behind.saturating_sub(first) >= HUGE_PAGE_BYTES {
        // SAFETY: the range is memory of this slice, borrowed alone; the advice changes the size of its pages, and none of its bytes.
        let _hint = unsafe { libc::madvise(first as *mut libc::c_void, behind - first, libc::MADV_HUGEPAGE) };
    }
}

/// Binds untouched memory to one node.
fn bind(map: &MmapMut, node: u32) -> io::Result<()> {
    const WORD_BITS: u32 = libc::c_ulong::BITS;
    let mut nodes: [libc::c_ulong; 16] = [0; 16];
    let word = nodes.get_mut((node / WORD_BITS) as usize).ok_or(io::ErrorKind::InvalidInput)?;
    *word = 1 << (node % WORD_BITS);
    // The kernel uses one bit less than this argument.
    let bits = size_of_val(&nodes) * 8 + 1;
    // SAFETY: the range is a mapping of this process that `map` owns, and the mask is on this stack frame; the call changes
    // where the pages come from, and none of their bytes.
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
    fn memory_of_every_kind_is_mapped_or_refused() {
        for huge_pages in [HugePages::Off, HugePages::Try, HugePages::Require] {
            for is_shared in [false, true] {
                match resident(3 << 20, Memory { huge_pages, numa_node: None, is_shared }) {
                    Ok(Resident { map, file }) => {
                        assert_eq!(map.len(), huge_pages.occupied(3 << 20));
                        let sealed = file.map(|file| sealed_bytes(&file).expect("a file"));
                        assert_eq!(sealed, is_shared.then_some(Some(map.len() as u64)));
                    }
                    Err(ResidentError::Bytes(cause)) => {
                        // Most machines have none reserved.
                        assert_eq!(huge_pages, HugePages::Require, "{cause}");
                    }
                    Err(ResidentError::Node(..)) => panic!("no node was asked for"),
                }
            }
        }
    }

    #[test]
    fn only_sealed_memory_has_a_size_that_can_be_trusted() {
        let memory = create_shared(1 << 16, HugePages::Off).expect("memory");
        assert_eq!(sealed_bytes(&memory).expect("a file"), Some(1 << 16));
        assert!(memory.set_len(1).is_err(), "it shrinks");
        let other = File::open("/proc/self/exe").expect("a program");
        assert_eq!(sealed_bytes(&other).expect("a file"), None);
    }

    #[test]
    fn an_existing_numa_node_is_accepted_and_others_are_refused() {
        for is_shared in [false, true] {
            let on = |node| {
                resident(1 << 16, Memory { huge_pages: HugePages::Try, numa_node: Some(node), is_shared })
            };
            match on(0) {
                Ok(resident) => assert_eq!(resident.map.len(), 1 << 16),
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
}
