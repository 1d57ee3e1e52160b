//! Arguments of `export` and `import`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use thalweg_export::Format;
use thalweg_run::recording::Table;

use super::RunsDirectory;

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The run's directory, or its number.
    pub(crate) run: PathBuf,
    #[command(flatten)]
    pub(crate) directory_of_runs: RunsDirectory,
    /// The format.
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(Format::ALL.map(Format::word)))]
    pub(crate) to: String,
    /// The file or directory to write; nothing may be there. `parquet` and `csv` write a directory with a file for each table, or the file
    /// of the one table that `--table` names. `mid` writes a file that ends with `.mid` or, compressed, `.mid.lz4`; `compass`, `.BIN`;
    /// `root`, `.root`; `hdf5`, `.h5` or `.hdf5`. The last two need the Python package, found by `python3` or the interpreter in
    /// `THALWEG_PYTHON`.
    #[arg(long, value_name = "PATH")]
    pub(crate) out: PathBuf,
    /// A table to export; may be given again. Without it, all that the run has and the format can hold.
    #[arg(long = "table", value_name = "NAME", value_parser = PossibleValuesParser::new(Table::ALL.map(Table::word)))]
    pub(crate) tables: Vec<String>,
    /// Add the energy by the calibration in the run's channels, as `energy_kev`.
    #[arg(long, value_name = "UNIT")]
    pub(crate) energies: Option<Energies>,
    /// Add the name of each hit's channel, as `channel_name`.
    #[arg(long)]
    pub(crate) channel_names: bool,
}

/// The unit of calibrated energies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Energies {
    /// Kiloelectronvolts.
    Kev,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The file: MIDAS events, plain or compressed with LZ4 or gzip, of a machine of either byte order.
    pub(crate) file: PathBuf,
    /// The directory of runs, in which the recording gets the next number; without it, the one that the variable THALWEG_RUNS names, or
    /// `runs`.
    #[arg(long, value_name = "DIR")]
    pub(crate) runs: Option<PathBuf>,
    /// The title of the recording; without it, that of the file.
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
}
