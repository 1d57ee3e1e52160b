//! Prints how fast time order is, for every distribution:
//! `cargo run --release -p thalweg-bench --example order [REPEATS]`.

use thalweg_bench::order::{Distribution, order};

fn main() {
    let repeats = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(7);
    let wanted = std::env::args().nth(2);
    for distribution in Distribution::ALL {
        if wanted.as_deref().is_some_and(|word| word != distribution.word()) {
            continue;
        }
        let measured = order(distribution, repeats);
        println!(
            "{:8} {:6.1} M hits/s   copying {:6.1} M hits/s   ratio {:.3}",
            distribution.word(),
            measured.value / 1e6,
            measured.baseline_value / 1e6,
            measured.ratio
        );
    }
}
