//! Writes the seeds of every target to `fuzz/seeds/TARGET/`, or below the folder given as the argument.
//!
//! ```text
//!  encoders ─► seeds/compass/00, 01, …   seeds/abcd/…   seeds/recording/…
//! ```

use std::error::Error;
use std::path::{Path, PathBuf};

use thalweg_data::{Flags, Hit};
use thalweg_frontend::format::FuzzTarget;
use thalweg_readout::pcap::CaptureWriter;
use thalweg_record::{Compression, HitsFile};

fn main() -> Result<(), Box<dyn Error>> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let folder = std::env::args().nth(1).map_or(beside, PathBuf::from);
    FuzzTarget::all().try_for_each(|target| write(&folder, target.name, &(target.seeds)()))?;
    write(&folder, "recording", &recordings()?)?;
    write(&folder, "midas", &[midas()])?;
    write(&folder, "units", &thalweg_build::unit::check::seeds())?;
    write(&folder, "peer", &thalweg_transport::peer::check::seeds())?;
    write(&folder, "pcap", &[capture()?])?;
    write(&folder, "ipbus", &thalweg_ipbus::wire::seeds())?;
    write(&folder, "cut", &cuts())?;
    write(&folder, "event_filter", &event_filters())?;
    Ok(())
}

fn write(folder: &Path, target: &str, inputs: &[Vec<u8>]) -> Result<(), Box<dyn Error>> {
    let folder = folder.join(target);
    std::fs::create_dir_all(&folder)?;
    for (number, input) in inputs.iter().enumerate() {
        std::fs::write(folder.join(format!("{number:02}")), input)?;
    }
    println!("{} seeds in {}", inputs.len(), folder.display());
    Ok(())
}

/// Three datagrams in a capture.
fn capture() -> Result<Vec<u8>, Box<dyn Error>> {
    let (board, host) = ("127.0.0.2:51940".parse()?, "127.0.0.1:40000".parse()?);
    let mut capture = CaptureWriter::new(Vec::new())?;
    for number in 0..3u8 {
        capture.datagram(1_000_000 * u64::from(number), board, host, &[number; 64])?;
    }
    Ok(capture.finish()?)
}

/// A MIDAS file: beginning of a run, an event of one bank, end of the run.
fn midas() -> Vec<u8> {
    let mut bytes = b"\x00\x80\x4d\x49\x07\x00\x00\x00\x00\xf1\x53\x65\x02\x00\x00\x00{}".to_vec();
    bytes.extend(b"\x01\x00\x01\x00\x01\x00\x00\x00\x01\xf1\x53\x65\x20\x00\x00\x00");
    bytes.extend(b"\x18\x00\x00\x00\x31\x00\x00\x00ADC0\x04\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00");
    bytes.extend(b"\x01\x00\x02\x00\x03\x00\x04\x00");
    bytes.extend(b"\x01\x80\x4d\x49\x07\x00\x00\x00\x02\xf1\x53\x65\x02\x00\x00\x00{}");
    bytes
}

/// A small file of hits in every compression.
fn recordings() -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let hit = |index: i64| Hit {
        time_ps: index * 1000,
        channel: (index % 3) as u16,
        energy: (index * 7) as u16,
        energy_short: index as u16,
        flags: Flags::FINE_TIME,
    };
    let hits: Vec<Hit> = (0..40).map(hit).collect();
    let path = std::env::temp_dir().join(format!("seeds-{}.arrows", std::process::id()));
    let mut files = Vec::new();
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let mut file = HitsFile::create(&path, compression, &[])?;
        for part in hits.chunks(20) {
            file.write(part)?;
            file.flush()?;
        }
        file.finish()?;
        files.push(std::fs::read(&path)?);
        std::fs::remove_file(&path)?;
    }
    Ok(files)
}

/// Expressions, and behind a zero byte some hits.
fn cuts() -> Vec<Vec<u8>> {
    let hits: Vec<u8> = (0..640u32).map(|index| (index * 37 % 251) as u8).collect();
    let texts = [
        "psd > 0.12 && energy in [200, 3000] && !pile_up",
        "inside(region) || 100 ns < time",
        "-(energy - 2) / 3 != keV",
    ];
    texts.map(|text| [text.as_bytes(), &[0], &hits].concat()).to_vec()
}

/// Expressions over built events, and behind a zero byte the length of slices and some events.
fn event_filters() -> Vec<Vec<u8>> {
    let events: Vec<u8> = (0..640u32).map(|index| (index * 37 % 23) as u8).collect();
    let texts = [
        "missing == 0 && trigger in [2, 7]",
        "max(u16_le, 1) > 500 || bit(\"left\", 1, 2)",
        "f32_be(\"camera/1\", 0) / ticks(\"left\") != latency",
    ];
    texts.map(|text| [text.as_bytes(), &[0, 3], &events].concat()).to_vec()
}
