//! Prints how fast SiTCP streams are split and emulated: `cargo run --release --example sitcp [REPEATS]`.

use thalweg_bench::frontend::sitcp;
use thalweg_frontend::sitcp::emulate::Mode;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let repeats = std::env::args().nth(1).map_or(Ok(5), |repeats| repeats.parse())?;
    for mode in [Mode::Suppressed, Mode::Raw] {
        println!("{}", serde_json::to_string_pretty(&sitcp::split(mode, repeats)?)?);
        println!("{}", serde_json::to_string_pretty(&sitcp::emulate(mode, repeats))?);
    }
    Ok(())
}
