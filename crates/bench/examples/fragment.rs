//! How fast fragments of synchronous boards are split and emulated on one core.
//!
//! ```text
//!  emulated boards ─► datagrams · stream in pool blocks ─► Splitter ─► fragments/s, beside a look at each datagram
//! ```
//! `cargo run --release --example fragment`

use thalweg_bench::frontend::fragment::{emulate, split};
use thalweg_data::measure::Measurement;
use thalweg_frontend::fragment::emulate::Settings;

const REPEATS: usize = 9;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let usual = Settings::default;
    for (name, boards, settings) in [
        ("1 kB", 1, usual()),
        ("1 kB", 265, usual()),
        ("1 kB", 512, usual()),
        ("64 B", 265, Settings { payload_bytes: 64, ..usual() }),
        ("1 kB, checksum", 265, Settings { checksum: true, ..usual() }),
        ("16 kB in 2 jumbos", 105, Settings { payload_bytes: 16_384, ..usual() }),
        ("6 kB in 5 datagrams", 105, Settings { payload_bytes: 6144, datagram_bytes: 1472, ..usual() }),
        ("1 kB, stream", 1, Settings { stream: true, ..usual() }),
        ("64 B, stream", 1, Settings { stream: true, payload_bytes: 64, ..usual() }),
    ] {
        let split = split(boards, &settings, REPEATS)?;
        let cost_ns = 1e9 / split.value;
        println!(
            "split, {boards:3} boards, {name:20} {cost_ns:7.2} ns each, {:.3} of {}",
            split.ratio, split.baseline
        );
        if !settings.stream {
            print_rate(boards, name, &emulate(boards, &settings, REPEATS)?);
        }
    }
    Ok(())
}

fn print_rate(boards: u16, name: &str, emulated: &Measurement) {
    let (rate, ratio) = (emulated.value / 1e6, emulated.ratio);
    println!(
        "emulate, {boards:3} boards, {name:20} {rate:5.1} M fragments/s, {ratio:.3} of {}",
        emulated.baseline
    );
}
