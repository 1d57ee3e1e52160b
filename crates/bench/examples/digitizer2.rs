//! Prints the figures of the x27xx decoder: `cargo run --release --example digitizer2 [decode|waveforms|scope|unpack]`.

use thalweg_bench::frontend::digitizer2;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wanted = std::env::args().nth(1);
    let repeats = std::env::args().nth(2).map_or(Ok(5), |repeats| repeats.parse())?;
    for (name, run) in digitizer2::ALL {
        if wanted.as_deref().is_none_or(|wanted| wanted == name) {
            println!("{}", serde_json::to_string_pretty(&run(repeats)?)?);
        }
    }
    Ok(())
}
