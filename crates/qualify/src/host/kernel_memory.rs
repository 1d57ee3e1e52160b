//! Reads the kernel's report of memory, in `/proc/meminfo` and `/proc/self/status`.
//!
//! ```text
//!  MemTotal:       16384 kB  ─► bytes
//! ```

/// Bytes of the host under this key of `/proc/meminfo`, such as `MemTotal`; `None` where the system does not say it.
pub fn host_bytes(key: &str) -> Option<u64> {
    bytes(&std::fs::read_to_string("/proc/meminfo").ok()?, key)
}

/// Bytes of this process under this key of `/proc/self/status`, such as `VmRSS`; `None` where the system does not say it.
pub fn own_bytes(key: &str) -> Option<u64> {
    bytes(&std::fs::read_to_string("/proc/self/status").ok()?, key)
}

/// Bytes under `key` in a text of lines such as `MemTotal: 16 kB`, whose unit is 1024 bytes (proc(5)).
pub fn bytes(text: &str, key: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    value.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes_and_is_unknown_where_it_is_no_number() {
        let text = "MemTotal:       16 kB\nMemFree: x kB\nMemAvailable: 18446744073709551615 kB\n";
        assert_eq!(bytes(text, "MemTotal"), Some(16 << 10));
        for key in ["Mem", "MemFree", "MemAvailable", "Swap"] {
            assert_eq!(bytes(text, key), None, "{key}");
        }
        assert!(host_bytes("MemTotal") > own_bytes("VmRSS") && own_bytes("VmRSS").is_some());
    }
}
