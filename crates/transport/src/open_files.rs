//! Raises the limit of open files: each socket counts as one, and hundreds of boards need hundreds.
//!
//! ```text
//!  soft limit, often 1024 ── raise ──► hard limit, often 524 288        setrlimit(2)
//! ```

use std::io;

/// Raises this process's soft limit of open files to the hard limit, and returns it.
///
/// # Errors
/// When the system refuses; the limit is then unchanged.
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
    fn a_raised_limit_stays() {
        let most = raise_open_files().expect("to the hard limit is always allowed");
        assert_eq!(raise_open_files().expect("again"), most);
        assert!(most >= 64);
    }
}
