//! Prints the cost of reading many boards: `cargo run --release -p thalweg-bench --example receive_fragments [REPEATS]`.

use thalweg_bench::boards::{Over, receive_fragments, receive_fragments_at};
use thalweg_data::SourceError;
use thalweg_data::measure::Measurement;

fn main() {
    let repeats = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(5);
    println!(
        "{:>4} {:>6} {:>8} {:>14} {:>14} {:>6} {:>14}",
        "over", "boards", "bytes", "fragments/s", "bare", "ratio", "wall"
    );
    for (over, boards, bytes) in [
        (Over::Tcp, 105, 380),
        (Over::Tcp, 105, 1024),
        (Over::Tcp, 512, 1024),
        (Over::Tcp, 105, 6156),
        (Over::Tcp, 105, 16 << 10),
        (Over::Tcp, 105, 64 << 10),
        (Over::Udp, 265, 1024),
    ] {
        print(over, boards, bytes, "", receive_fragments(over, boards, bytes, repeats));
    }
    for (rate_hz, boards, bytes) in [(1000.0, 105, 380), (10_000.0, 105, 380), (1000.0, 512, 380)] {
        let measured = receive_fragments_at(rate_hz, boards, bytes, repeats);
        print(Over::Tcp, boards, bytes, &format!("at {rate_hz} Hz"), measured);
    }
}

fn print(over: Over, boards: u16, bytes: usize, rate: &str, measured: Result<Measurement, SourceError>) {
    match measured {
        Ok(measured) => println!(
            "{:>4} {boards:>6} {bytes:>8} {:>14.0} {:>14.0} {:>6.3} {:>14.0} {rate}",
            if over == Over::Tcp { "tcp" } else { "udp" },
            measured.value,
            measured.baseline_value,
            measured.ratio,
            measured.parameters["wall_fragments_per_second"].as_f64().unwrap_or(0.0),
        ),
        Err(error) => println!("{over:?} {boards} × {bytes} {rate}: {error}"),
    }
}
