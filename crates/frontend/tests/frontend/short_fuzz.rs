//! Tests every parser of every family with some thousand damaged seeds, on any toolchain.
//!
//! The long runs are those of `make fuzz`. Here the generator is seeded and their number is fixed, so that every machine tries the same;
//! an input that fails is printed. `THALWEG_FUZZ_INPUTS` sets how many each parser gets (20 000 by default).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use thalweg_frontend::damage::damage;
use thalweg_frontend::format::FuzzTarget;

const INPUTS: u32 = 20_000;

fn inputs() -> u32 {
    std::env::var("THALWEG_FUZZ_INPUTS").ok().and_then(|text| text.parse().ok()).unwrap_or(INPUTS)
}

fn try_damaged_seeds(target: &FuzzTarget) {
    let hexadecimal = |input: &[u8]| input.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let survive = |input: &[u8]| {
        let outcome = catch_unwind(AssertUnwindSafe(|| (target.check)(input)));
        assert!(outcome.is_ok(), "{} failed for {}", target.name, hexadecimal(input));
    };
    let seeds = (target.seeds)();
    seeds.iter().for_each(|seed| survive(seed));
    let mut random = Pcg64::seed_from_u64(20_140_604);
    for _ in 0..inputs() {
        let mut input = seeds[random.random_range(0..seeds.len())].clone();
        let other = &seeds[random.random_range(0..seeds.len())];
        damage(&mut random, &mut input, other);
        survive(&input);
    }
}

#[test]
fn every_parser_survives_damaged_seeds() {
    let targets = Mutex::new(FuzzTarget::all());
    let next = || targets.lock().expect("no thread panics while it holds the lock").next();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| std::iter::from_fn(next).for_each(try_damaged_seeds));
        }
    });
}
