//! A few seconds of mutated seeds for every `check` function, on any toolchain.
//!
//! The long runs are those of `make fuzz`. Here the generator is seeded, so that a failure comes back; what it prints
//! is the input. `THALWEG_FUZZ_SECONDS` sets how long each function is tried (2 without it).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use thalweg_frontend::{abcd, check, compass, digitizer2, fragment, generic, seeds, sitcp};

fn duration() -> Duration {
    let seconds = std::env::var("THALWEG_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or(2.0))
}

/// One to eight damages: bytes set, bits flipped, ranges cut, doubled, or taken from another seed.
fn mutate(random: &mut Pcg64, input: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..random.random_range(1..=8) {
        if input.is_empty() {
            input.push(random.random());
        }
        let at = random.random_range(0..input.len());
        let end = (at + random.random_range(0..40)).min(input.len());
        match random.random_range(0..7) {
            0 => input[at] = random.random(),
            1 => input[at] ^= 1 << random.random_range(0..8),
            2 => input[at] = [0x00, 0xFF, 0x7F, 0x80][random.random_range(0..4)],
            3 => drop(input.drain(at..end)),
            4 => drop(input.splice(at..at, input[at..end].to_vec())),
            5 if !other.is_empty() => {
                let from = random.random_range(0..other.len());
                let piece = &other[from..(from + end - at).min(other.len())];
                drop(input.splice(at..at, piece.iter().copied()));
            }
            _ => input[at..end].iter_mut().for_each(|byte| *byte = random.next_u32() as u8),
        }
    }
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
            mutate(&mut random, &mut input, other);
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
