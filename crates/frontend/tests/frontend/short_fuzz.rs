//! A few seconds of mutated seeds for every `check` function, on any toolchain.
//!
//! The long runs are those of `make fuzz`. Here the generator is seeded, so that a failure comes back; what it prints
//! is the input. `THALWEG_FUZZ_SECONDS` sets how long each function is tried (2 without it).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use thalweg_frontend::{abcd, check, compass, digitizer2, fragment, generic, seeds, sitcp};

fn duration() -> Duration {
    let seconds = std::env::var("THALWEG_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or(2.0))
}

fn try_for_a_while(seeds: &[Vec<u8>], check: impl Fn(&[u8])) {
    let hexadecimal = |input: &[u8]| input.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let survive = |input: &[u8]| {
        let outcome = catch_unwind(AssertUnwindSafe(|| check(input)));
        assert!(outcome.is_ok(), "the check failed for {}", hexadecimal(input));
    };
    seeds.iter().for_each(|seed| survive(seed));
    let (mut random, start, mut tried) = (Pcg64::seed_from_u64(20_140_604), Instant::now(), 0u64);
    while start.elapsed() < duration() {
        for _ in 0..100 {
            let mut input = seeds[random.random_range(0..seeds.len())].clone();
            let other = &seeds[random.random_range(0..seeds.len())];
            seeds::damage(&mut random, &mut input, other);
            survive(&input);
            tried += 1;
        }
    }
    println!("{tried} inputs");
}

#[test]
fn compass_files() {
    try_for_a_while(&seeds::compass(), compass::check);
}

#[test]
fn abcd_files() {
    try_for_a_while(&seeds::abcd(), abcd::check);
}

#[test]
fn described_packets() {
    try_for_a_while(&seeds::generic(), generic::check);
}

#[test]
fn descriptions() {
    try_for_a_while(&seeds::descriptions(), |input| {
        generic::check_description(input, |text| toml::from_str(text).ok());
    });
}

#[test]
fn digitizer2_datagrams() {
    try_for_a_while(&seeds::digitizer2_udp(), |input| drop(digitizer2::check::udp_stream(input)));
}

#[test]
fn digitizer2_streams() {
    try_for_a_while(&seeds::digitizer2_tcp(), |input| drop(digitizer2::check::tcp_stream(input)));
}

#[test]
fn digitizer2_events() {
    try_for_a_while(&seeds::digitizer2_aggregate(), |input| drop(digitizer2::check::aggregate(input)));
}

#[test]
fn digitizer2_control() {
    try_for_a_while(&seeds::digitizer2_control(), check::control);
}

#[test]
fn sitcp_streams() {
    try_for_a_while(&seeds::sitcp(), sitcp::check::check_stream);
}

#[test]
fn sitcp_registers() {
    try_for_a_while(&seeds::sitcp_registers(), sitcp::check::check_registers);
}

#[test]
fn fragments() {
    try_for_a_while(&seeds::fragment(), fragment::check::check);
}
