//! `cargo run --release -p thalweg-bench --example record [DIRECTORY] [none|lz4|zstd] [REPEATS]
//! [hits|coincidences|small|large]`

use std::path::PathBuf;

use thalweg_bench::record::{EventShape, Way, record_coincidences_in, record_events_in, record_in};
use thalweg_record::{Compression, Settings};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let compression = match arguments.next().as_deref() {
        Some("lz4") => Compression::Lz4,
        Some("zstd") => Compression::Zstd,
        _ => Compression::None,
    };
    let repeats = arguments.next().and_then(|repeats| repeats.parse().ok()).unwrap_or(5);
    let way = Way::free(&directory, repeats, Settings { compression, ..Settings::default() });
    let measured = match arguments.next().as_deref() {
        Some("small") => record_events_in(&way, EventShape::MANY_SMALL),
        Some("large") => record_events_in(&way, EventShape::FEW_LARGE),
        Some("coincidences") => record_coincidences_in(&way),
        _ => record_in(&way),
    };
    println!("{}", serde_json::to_string_pretty(&measured).unwrap_or_default());
}
