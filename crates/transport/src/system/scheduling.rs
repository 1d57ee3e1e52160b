//! The cores and the priority of the calling thread, for processor and disk.

use std::io;

/// How many cores a mask can name.
pub(crate) const MOST_CORES: usize = 8192;
const WORD_BITS: usize = u64::BITS as usize;

type Mask = [u64; MOST_CORES / WORD_BITS];

/// The cores that the calling thread may run on, in order.
pub(crate) fn allowed_cores() -> io::Result<Vec<usize>> {
    let mut mask: Mask = [0; _];
    // SAFETY: the pointer and length describe `mask`, of which the kernel writes a part; thread 0 is the calling one.
    let result = unsafe { libc::sched_getaffinity(0, size_of_val(&mask), mask.as_mut_ptr().cast()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((0..MOST_CORES).filter(|core| mask[core / WORD_BITS] >> (core % WORD_BITS) & 1 == 1).collect())
}

/// Lets the calling thread run only on these cores.
pub(crate) fn allow_cores(cores: &[usize]) -> io::Result<()> {
    let mut mask: Mask = [0; _];
    for core in cores {
        let word = mask.get_mut(core / WORD_BITS).ok_or(io::ErrorKind::InvalidInput)?;
        *word |= 1 << (core % WORD_BITS);
    }
    // SAFETY: the pointer and length describe `mask`, which the kernel reads; thread 0 is the calling one.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&mask), mask.as_ptr().cast()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The real-time priority of the calling thread (`SCHED_FIFO`); 0 if it has none.
pub(crate) fn priority() -> io::Result<u8> {
    let mut parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel writes one `sched_param`, which is on this stack frame.
    let result = unsafe { libc::sched_getparam(0, &raw mut parameter) };
    if result == 0 {
        Ok(parameter.sched_priority.clamp(0, 99) as u8)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The lowest priority that a thread without a real-time one can have.
const LOWEST: libc::c_int = 19;
/// `ioprio_set`: of a thread, the class best-effort, the last of its eight levels. (`linux/ioprio.h`)
const OF_A_THREAD: libc::c_int = 1;
const LAST_OF_BEST_EFFORT: libc::c_int = (2 << 13) | 7;

/// Lets the calling thread use what others leave of the cores and of the disk. Nothing gives that back without a privilege.
pub(crate) fn yield_to_others() -> io::Result<()> {
    // SAFETY: the call takes numbers; process 0 is the calling thread.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, LOWEST) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call takes numbers; thread 0 is the calling one.
    let result = unsafe { libc::syscall(libc::SYS_ioprio_set, OF_A_THREAD, 0, LAST_OF_BEST_EFFORT) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives the calling thread a real-time priority of 1 to 99, or none with 0.
pub(crate) fn set_priority(priority: u8) -> io::Result<()> {
    let policy = if priority == 0 { libc::SCHED_OTHER } else { libc::SCHED_FIFO };
    let parameter = libc::sched_param { sched_priority: i32::from(priority) };
    // SAFETY: the kernel reads one `sched_param`, which is on this stack frame.
    let result = unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
