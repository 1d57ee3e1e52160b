//! Writes the data of an emulated board for inspection: energy spectrum and time differences as CSV, pulse shape as
//! PPM.
//!
//! ```text
//!  Settings ─► Board ─► truth ─► spectrum.csv, times.csv, shape.ppm
//! ```
//! `cargo run --release --example emulated_spectrum -- DIRECTORY [ISOTOPE …]`, for example `out na22 cs137 co60 cf252`.

use std::fmt::Write as _;
use std::path::Path;

use thalweg_data::Hit;
use thalweg_frontend::digitizer2::emulate::settings::{Isotope, Rates};
use thalweg_frontend::digitizer2::emulate::{Board, Settings};
use thalweg_frontend::self_triggered::{Outgoing, SelfTriggeredBoard};

const WIDTH: usize = 600;
const HEIGHT: usize = 400;
const BINS: usize = 3000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().unwrap_or_else(|| ".".into());
    let isotopes: Vec<Isotope> =
        arguments.map(|word| serde_json::from_value(word.into())).collect::<Result<_, _>>()?;
    let mut settings = Settings { rate_hz: Rates::Each(10_000.0), ..Settings::default() };
    if !isotopes.is_empty() {
        settings.isotopes = isotopes.into_iter().map(|isotope| (isotope, 1.0)).collect();
    }
    let mut board = Board::new(settings)?;
    board.record_truth(true);
    board.arm()?;
    board.start(0)?;
    board.stop(3_000_000_000);
    let (mut out, mut truth) = (Outgoing::new(1 << 20), Vec::new());
    while board.produce(u64::MAX, &mut out) {
        out.clear();
        board.take_truth(&mut truth);
    }
    board.take_truth(&mut truth);
    println!("{} hits", truth.len());
    write_spectrum(&truth, &Path::new(&directory).join("spectrum.csv"))?;
    write_times(&truth, &Path::new(&directory).join("times.csv"))?;
    write_shape(&truth, &Path::new(&directory).join("shape.ppm"))?;
    Ok(())
}

/// Counts per keV, all channels at their nominal gain.
fn write_spectrum(truth: &[Hit], path: &Path) -> std::io::Result<()> {
    let mut counts = vec![0u32; BINS];
    for hit in truth {
        counts.get_mut(usize::from(hit.energy) / 10).into_iter().for_each(|count| *count += 1);
    }
    write_counts("kev", counts.iter().enumerate().map(|(bin, count)| (bin as i64, *count)), path)
}

/// Time to the next hit, 100 ps a bin.
fn write_times(truth: &[Hit], path: &Path) -> std::io::Result<()> {
    let mut counts = vec![0u32; 1000];
    for pair in truth.windows(2) {
        let bin = ((pair[1].time_ps - pair[0].time_ps) / 100) as usize;
        counts.get_mut(bin).into_iter().for_each(|count| *count += 1);
    }
    write_counts("ps", counts.iter().enumerate().map(|(bin, count)| (bin as i64 * 100, *count)), path)
}

fn write_counts(unit: &str, rows: impl Iterator<Item = (i64, u32)>, path: &Path) -> std::io::Result<()> {
    let mut text = format!("{unit},counts\n");
    for (value, count) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{value},{count}");
    }
    std::fs::write(path, text)
}

/// Tail part of the charge (upwards, 0 to 0.6) against energy (to 3 MeV), brightness logarithmic.
fn write_shape(truth: &[Hit], path: &Path) -> std::io::Result<()> {
    let mut counts = vec![0u32; WIDTH * HEIGHT];
    for hit in truth {
        let shape = 1.0 - f64::from(hit.energy_short) / f64::from(hit.energy.max(1));
        let (x, y) = (usize::from(hit.energy) / 50, (shape / 0.6 * HEIGHT as f64) as usize);
        if x < WIDTH && y < HEIGHT {
            counts[(HEIGHT - 1 - y) * WIDTH + x] += 1;
        }
    }
    let top = f64::from(counts.iter().copied().max().unwrap_or(1).max(1)).ln_1p();
    let mut image = format!("P6\n{WIDTH} {HEIGHT}\n255\n").into_bytes();
    for count in counts {
        let level = f64::from(count).ln_1p() / top;
        image.extend([
            (level * 255.0) as u8,
            (level * level * 255.0) as u8,
            ((1.0 - level) * level * 500.0).min(255.0) as u8,
        ]);
    }
    std::fs::write(path, image)
}
