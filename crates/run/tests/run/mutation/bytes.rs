//! Runs of front ends alone: whole and damaged bytes through framing and decoding, whose ledgers must balance.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use thalweg_frontend::damage::damage;
use thalweg_frontend::format::FuzzTarget;

/// Damaged inputs of each front end.
const DAMAGED: usize = 1500;

/// Tries the parser of a front end with its seeds.
pub fn run(target: &FuzzTarget) -> Result<(), String> {
    std::panic::set_hook(Box::new(|_| {}));
    let balances = |input: &[u8]| {
        let checked = catch_unwind(AssertUnwindSafe(|| (target.check)(input)));
        checked.map_err(|_| format!("does not balance: {input:02x?}"))
    };
    let seeds = (target.seeds)();
    seeds.iter().try_for_each(|seed| balances(seed))?;
    let mut random = Pcg64::seed_from_u64(20_140_604);
    for _ in 0..DAMAGED {
        let mut input = seeds[random.random_range(0..seeds.len())].clone();
        let other = &seeds[random.random_range(0..seeds.len())];
        damage(&mut random, &mut input, other);
        balances(&input)?;
    }
    Ok(())
}
