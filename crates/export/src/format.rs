//! The formats that a run can be exported to.

use thalweg_record::Table;

/// A format of other programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Apache Parquet: one file for each table.
    Parquet,
    /// Comma-separated values: one file for each table.
    Csv,
    /// MIDAS event files, plain or compressed with LZ4.
    Mid,
    /// List files of CoMPASS.
    Compass,
    /// Files of ROOT, with a tree for each table, written by the Python package.
    Root,
    /// Files of HDF5 with names of NeXus, written by the Python package.
    Hdf5,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 6] =
        [Format::Parquet, Format::Csv, Format::Mid, Format::Compass, Format::Root, Format::Hdf5];

    /// Its word on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Format::Parquet => "parquet",
            Format::Csv => "csv",
            Format::Mid => "mid",
            Format::Compass => "compass",
            Format::Root => "root",
            Format::Hdf5 => "hdf5",
        }
    }

    /// How its files end.
    pub const fn endings(self) -> &'static [&'static str] {
        match self {
            Format::Parquet => &[".parquet"],
            Format::Csv => &[".csv"],
            Format::Mid => &[".mid", ".mid.lz4"],
            Format::Compass => &[".BIN"],
            Format::Root => &[".root"],
            Format::Hdf5 => &[".h5", ".hdf5"],
        }
    }

    /// Whether one file has all tables.
    pub const fn is_one_file(self) -> bool {
        matches!(self, Format::Mid | Format::Compass | Format::Root | Format::Hdf5)
    }

    /// The tables that it can hold.
    pub const fn tables(self) -> &'static [Table] {
        match self {
            Format::Parquet | Format::Csv | Format::Root | Format::Hdf5 => &Table::ALL,
            Format::Mid => &[Table::Fragments, Table::Hits, Table::Coincidences],
            Format::Compass => &[Table::Hits],
        }
    }
}
