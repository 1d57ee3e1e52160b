//! Runs of front ends alone: whole and damaged bytes through framing and decoding, whose books are held to the laws.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use thalweg_frontend::{abcd, compass, digitizer2, fragment, generic, seeds, sitcp};

use super::Run;

/// Damaged inputs of each front end.
const DAMAGED: usize = 1500;

/// The runs, by name.
pub const RUNS: &[(&str, Run)] = &[
    ("compass_bytes", || all(&seeds::compass(), compass::check)),
    ("abcd_bytes", || all(&seeds::abcd(), abcd::check)),
    ("generic_bytes", || all(&seeds::generic(), generic::check)),
    ("digitizer2_datagrams", || {
        all(&seeds::digitizer2_udp(), |input| drop(digitizer2::check::udp_stream(input)))
    }),
    ("digitizer2_packets", || {
        all(&seeds::digitizer2_tcp(), |input| drop(digitizer2::check::tcp_stream(input)))
    }),
    ("digitizer2_events", || {
        all(&seeds::digitizer2_aggregate(), |input| drop(digitizer2::check::aggregate(input)))
    }),
    ("sitcp_bytes", || all(&seeds::sitcp(), sitcp::check::check_stream)),
    ("fragment_bytes", || all(&seeds::fragment(), fragment::check::check)),
];

fn all(seeds: &[Vec<u8>], check: impl Fn(&[u8])) -> Result<(), String> {
    std::panic::set_hook(Box::new(|_| {}));
    let balances = |input: &[u8]| {
        let checked = catch_unwind(AssertUnwindSafe(|| check(input)));
        checked.map_err(|_| format!("does not balance: {input:02x?}"))
    };
    seeds.iter().try_for_each(|seed| balances(seed))?;
    let mut random = Pcg64::seed_from_u64(20_140_604);
    for _ in 0..DAMAGED {
        let mut input = seeds[random.random_range(0..seeds.len())].clone();
        let other = &seeds[random.random_range(0..seeds.len())];
        seeds::damage(&mut random, &mut input, other);
        balances(&input)?;
    }
    Ok(())
}
