//! The cores and the real-time priority of the calling thread.

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

/// Gives the calling thread a real-time priority of 1 to 99, or none with 0.
pub(crate) fn set_priority(priority: u8) -> io::Result<()> {
    let policy = if priority == 0 { libc::SCHED_OTHER } else { libc::SCHED_FIFO };
    let parameter = libc::sched_param { sched_priority: i32::from(priority) };
    // SAFETY: the kernel reads one `sched_param`, which is on this stack frame.
    let result = unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
