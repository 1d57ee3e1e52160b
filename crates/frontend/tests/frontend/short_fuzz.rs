//! Tests every parser of every family with a few seconds of mutated seeds, on any toolchain.
//!
//! The long runs are those of `make fuzz`. Here the generator is seeded, so that a failure can be reproduced; its input
//! is printed. `THALWEG_FUZZ_SECONDS` sets the time for each parser (2 by default).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use thalweg_frontend::damage::damage;
use thalweg_frontend::format::FuzzTarget;

fn duration() -> Duration {
    let seconds = std::env::var("THALWEG_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or(2.0))
}

fn try_for_a_while(target: &FuzzTarget) {
    let hexadecimal = |input: &[u8]| input.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let survive = |input: &[u8]| {
        let outcome = catch_unwind(AssertUnwindSafe(|| (target.check)(input)));
        assert!(outcome.is_ok(), "{} failed for {}", target.name, hexadecimal(input));
    };
    let seeds = (target.seeds)();
    seeds.iter().for_each(|seed| survive(seed));
    let (mut random, start, mut tried) = (Pcg64::seed_from_u64(20_140_604), Instant::now(), 0u64);
    while start.elapsed() < duration() {
        for _ in 0..100 {
            let mut input = seeds[random.random_range(0..seeds.len())].clone();
            let other = &seeds[random.random_range(0..seeds.len())];
            damage(&mut random, &mut input, other);
            survive(&input);
            tried += 1;
        }
    }
    println!("{}: {tried} inputs", target.name);
}

#[test]
fn every_parser_survives_damaged_seeds() {
    let targets = Mutex::new(FuzzTarget::all());
    let next = || targets.lock().expect("no thread panics while it holds the lock").next();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| std::iter::from_fn(next).for_each(try_for_a_while));
        }
    });
}
