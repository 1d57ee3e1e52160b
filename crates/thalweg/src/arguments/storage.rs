//! The arguments of `qualify storage`.

use std::path::PathBuf;

use clap::Args;
use thalweg_qualify::predict::quantity;
use thalweg_qualify::storage::{KeepFree, Sync};

#[derive(Debug, Args)]
pub(crate) struct QualifyStorage {
    /// Directories, one on each disk or partition: each is measured by itself. Without, that of --config
    pub(crate) directories: Vec<PathBuf>,
    /// A configuration: written as its `[record]` does (`sync`, `batch_bytes`), in its directory unless others are given
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Bytes of each file; two of them are there at a time. More than the host's memory to be sustained through the page cache
    #[arg(long, default_value = "4GiB", value_name = "SIZE", value_parser = whole_bytes)]
    pub(crate) bytes: u64,
    /// Bytes of one call; the recorder writes 256KiB
    #[arg(long, value_name = "SIZE", value_parser = whole_bytes)]
    pub(crate) chunk: Option<u64>,
    /// With `--sync batch`: forced to the disk behind so many bytes, as `record.batch_bytes`
    #[arg(long, value_name = "SIZE", value_parser = whole_bytes)]
    pub(crate) batch: Option<u64>,
    /// When what is written is forced to the disk, as `record.sync`: none, batch, or each so many seconds
    #[arg(long, value_name = "none|batch|SECONDS", value_parser = sync)]
    pub(crate) sync: Option<Sync>,
    /// Through the page cache, as the recorder, or past it (O_DIRECT)
    #[arg(long, value_enum, default_value_t = StorageAccess::Both)]
    pub(crate) access: StorageAccess,
    /// Fill what is free, down to the floor, with ten files, and measure each: the rate by position on the disk. Takes long
    #[arg(long)]
    pub(crate) fill: bool,
    /// What stays free, a size or a part of the disk; a tenth or 5 GB unless given, whichever is more
    #[arg(long, value_name = "SIZE|PERCENT%", value_parser = keep_free)]
    pub(crate) keep_free: Option<KeepFree>,
    /// What a planned run writes: the disk is held against it. No configuration states it
    #[arg(long, value_name = "RATE", value_parser = quantity::bytes_per_second)]
    pub(crate) needs: Option<f64>,
    /// Do not let `fio` measure beside
    #[arg(long)]
    pub(crate) no_fio: bool,
    /// What is written is made from it
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Draw rates over time and by position to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

/// How files are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum StorageAccess {
    /// Both, one after the other
    Both,
    /// Through the page cache
    Buffered,
    /// Past the page cache
    Direct,
}

fn whole_bytes(text: &str) -> Result<u64, quantity::QuantityError> {
    // A cast of a float saturates: what is larger than any disk is refused for that.
    quantity::bytes(text).map(|bytes| bytes as u64)
}

fn sync(text: &str) -> Result<Sync, String> {
    match text {
        "none" => Ok(Sync::None),
        "batch" => Ok(Sync::Batch),
        _ => match text.parse() {
            Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(Sync::Seconds(seconds)),
            _ => Err("write none, batch, or seconds above 0".to_owned()),
        },
    }
}

fn keep_free(text: &str) -> Result<KeepFree, String> {
    let percent = text.trim().strip_suffix('%').map(|number| number.trim().parse::<f64>());
    match percent {
        Some(Ok(percent)) if (0.0..100.0).contains(&percent) => Ok(KeepFree::Part(percent / 100.0)),
        Some(_) => Err("write a part of the disk from 0% to below 100%, or a size".to_owned()),
        None if text.trim() == "0" => Ok(KeepFree::Bytes(0)),
        None => whole_bytes(text).map(KeepFree::Bytes).map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_has_the_words_of_the_configuration() {
        assert_eq!(sync("none"), Ok(Sync::None));
        assert_eq!(sync("batch"), Ok(Sync::Batch));
        assert_eq!(sync("2.5"), Ok(Sync::Seconds(2.5)));
        for text in ["never", "0", "-1", "NaN", "inf", ""] {
            assert!(sync(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_stays_free_is_a_part_or_a_size() {
        assert_eq!(keep_free("10%"), Ok(KeepFree::Part(0.1)));
        assert_eq!(keep_free("5GB"), Ok(KeepFree::Bytes(5_000_000_000)));
        assert_eq!(keep_free("0"), Ok(KeepFree::Bytes(0)));
        for text in ["100%", "-1%", "x%", "%", "5Gbit", "much"] {
            assert!(keep_free(text).is_err(), "{text}");
        }
    }
}
