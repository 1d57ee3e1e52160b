//! Connection tracking: a firewall that remembers every flow looks up every packet, and throws away what its table has no space for.
//!
//! ```text
//!  /proc/sys/net/netfilter/nf_conntrack_{count,max} ─► Check
//! ```

use super::check::{Check, Severity};
use super::reading::{HostFiles, Unread};

/// A table that is fuller than this overflows with the next program that opens many flows.
const MOST_FILLED: f64 = 0.5;

/// Checks whether flows are tracked, and whether there is space for more.
pub(super) fn check(files: &HostFiles) -> Check {
    let why = "every packet is looked up in a table of flows, and what finds that full is thrown away, which no socket counts: rules in `raw prerouting` with `notrack` take data ports out of it";
    let check = Check::of("connection tracking", Severity::Warning, why)
        .wanting("none, or a table that is at most half full; with nft: `udp dport PORTS notrack` in a chain of type filter, hook prerouting, priority raw");
    let number = |name: &str| files.number::<u64>(&format!("/proc/sys/net/netfilter/nf_conntrack_{name}"));
    match (number("count"), number("max")) {
        (Ok(flows), Ok(most)) => {
            let is_roomy = flows as f64 <= MOST_FILLED * most as f64;
            check.found(format!("{flows} flows of {most} in this network namespace"), is_roomy)
        }
        // Only where other values of the network can be read.
        (Err(Unread::Missing(_)), _) if files.number::<u64>("/proc/sys/net/core/rmem_max").is_ok() => {
            check.found("none: this kernel tracks no flows here", true)
        }
        (Err(why), _) | (_, Err(why)) => check.unknown(why),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::CheckVerdict;
    use super::super::tests::host;
    use super::*;

    #[test]
    fn a_table_of_flows_that_is_half_full_is_bad_and_none_is_good() {
        let tracked = |count| {
            let root = host(&[
                ("/proc/sys/net/netfilter/nf_conntrack_count", count),
                ("/proc/sys/net/netfilter/nf_conntrack_max", "1000"),
            ]);
            check(&HostFiles::below(root.path()))
        };
        assert_eq!((tracked("12").verdict, tracked("600").verdict), (CheckVerdict::Good, CheckVerdict::Bad));
        assert_eq!(tracked("12").value, "12 flows of 1000 in this network namespace");
        let root = host(&[("/proc/sys/net/core/rmem_max", "1")]);
        assert!(check(&HostFiles::below(root.path())).value.starts_with("none"));
    }
}
