//! Prints what building costs per fragment in memory, for every number of sources:
//! `cargo run --release -p thalweg-bench --example build_memory [REPEATS]`.

use thalweg_bench::build_memory::build_memory;

fn main() -> Result<(), thalweg_data::PoolError> {
    let repeats = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(5);
    for measured in build_memory(repeats)? {
        println!(
            "{:12} {:4} sources {:6.2} ns/fragment   bare table {:5.2}",
            measured.parameters["arrival"].as_str().unwrap_or_default(),
            measured.parameters["sources"],
            measured.value,
            measured.baseline_value
        );
    }
    Ok(())
}
