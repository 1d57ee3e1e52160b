//! Measures how fast an emulated board computes its data on one core: simulated physics and prepared data, compared
//! with a plain copy.
//!
//! ```text
//!  Board::produce, u64::MAX ─► hits per second        copy of the same bytes ─► hits per second, the baseline
//! ```
//! `cargo run --release --example emulated_rate`

use std::hint::black_box;
use std::time::{Duration, Instant};

use thalweg_data::measure::median;
use thalweg_frontend::digitizer2::emulate::settings::Data;
use thalweg_frontend::digitizer2::emulate::{Board, Settings};
use thalweg_frontend::self_triggered::{Outgoing, SelfTriggeredBoard};

const TIME: Duration = Duration::from_millis(300);
const REPEATS: usize = 7;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let live = Settings { total_rate_hz: Some(2e6), ..Settings::default() };
    let prepared = Settings { total_rate_hz: Some(40e6), prepared: true, ..Settings::default() };
    for (name, settings) in [
        ("live, 2 MHz", live.clone()),
        ("live, 10 kHz", Settings { total_rate_hz: Some(1e4), ..live.clone() }),
        ("live, 512-sample waveforms", Settings { waveform_samples: 512, ..live }),
        ("prepared", prepared.clone()),
        ("prepared, 1024 B datagrams", Settings { datagram_bytes: 1024, ..prepared.clone() }),
        ("prepared, one word", Settings { data: Data::OneWord, ..prepared }),
    ] {
        let began = Instant::now();
        let mut board = Board::new(settings)?;
        let made = began.elapsed();
        board.arm()?;
        board.start(0)?;
        let mut out = Outgoing::new(512 << 10);
        let (mut rates, mut ratios) = (Vec::new(), Vec::new());
        for _ in 0..REPEATS {
            let (rate, bytes_rate) = produce(&mut board, &mut out);
            rates.push(rate);
            ratios.push(bytes_rate / copy(out.bytes()));
        }
        let (rate, ratio) = (median(&mut rates) / 1e6, median(&mut ratios));
        println!("{name:28} {rate:8.1} M hits/s, {ratio:.3} of a copy; created in {made:.1?}");
    }
    Ok(())
}

fn produce(board: &mut Board, out: &mut Outgoing) -> (f64, f64) {
    let (began, before) = (Instant::now(), board.totals());
    while began.elapsed() < TIME {
        out.clear();
        board.produce(u64::MAX, out);
        black_box(out.bytes());
    }
    let (seconds, after) = (began.elapsed().as_secs_f64(), board.totals());
    ((after.hits - before.hits) as f64 / seconds, (after.bytes - before.bytes) as f64 / seconds)
}

fn copy(bytes: &[u8]) -> f64 {
    let mut there = vec![0u8; bytes.len()];
    let (began, mut copied) = (Instant::now(), 0);
    while began.elapsed() < TIME / 3 {
        there.copy_from_slice(black_box(bytes));
        black_box(&mut there);
        copied += bytes.len();
    }
    copied as f64 / began.elapsed().as_secs_f64()
}
