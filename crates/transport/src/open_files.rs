//! How many files a process may have open: a socket is one, and hundreds of boards are hundreds.
//!
//! ```text
//!  soft limit, often 1024 ── raise ──► hard limit, often 524 288        setrlimit(2)
//! ```

use std::io;

/// Raises this process's limit of open files to the highest that it may have; returns that.
///
/// # Errors
/// When the system refuses; the limit is as before.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a `rlimit` that lives through the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if limit.rlim_cur < limit.rlim_max {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: as above; it is only read.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(limit.rlim_cur)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_raised_once_stays() {
        let most = raise_open_files().expect("to the hard limit is always allowed");
        assert_eq!(raise_open_files().expect("again"), most);
        assert!(most >= 64);
    }
}
