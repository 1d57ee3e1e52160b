//! Values of slow control out of the table `series`.
//!
//! ```text
//!  series.arrows ──► columns of a batch ──► Reading, as it was recorded
//! ```

use std::path::Path;

use super::events::open_table;
use super::table_reader::TableReader;
use crate::error::RecordError;
use crate::series_list::{Reading, SeriesName};
use crate::table::Table;

/// Reads the table `series`, batch by batch.
#[derive(Debug)]
pub struct SeriesReader {
    reader: TableReader,
}

impl SeriesReader {
    /// Opens a file of series.
    ///
    /// # Errors
    /// When it cannot be read or is another table.
    pub fn open(path: &Path) -> Result<SeriesReader, RecordError> {
        Ok(SeriesReader { reader: open_table(path, Table::Series)? })
    }

    /// What each series is of.
    pub fn names(&self) -> Vec<SeriesName> {
        let names = self.reader.metadata().get("series");
        names.and_then(|names| serde_json::from_str(names).ok()).unwrap_or_default()
    }

    /// The rest of the file at once. The checksums are verified.
    ///
    /// # Errors
    /// When a batch is damaged or cut.
    pub fn read_all(mut self) -> Result<Vec<Reading>, RecordError> {
        let mut all = Vec::new();
        while let Some(head) = self.reader.next_batch()? {
            self.reader.verify_checksum(&head)?;
            let times = self.reader.numbers::<8>(&head, 0)?;
            let series = self.reader.texts(&head, 1)?;
            let values = self.reader.optional_numbers::<8>(&head, 2)?;
            all.extend(times.into_iter().zip(series).zip(values).map(|((time, series), value)| Reading {
                time_ns: u64::from_le_bytes(time),
                series,
                value: value.map(f64::from_le_bytes),
            }));
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::RunDirectory;
    use crate::series_list::SeriesList;
    use crate::settings::Sync;

    fn reading(second: u64, value: Option<f64>) -> Reading {
        Reading { time_ns: second * 1_000_000_000, series: "temperature".to_owned(), value }
    }

    #[test]
    fn what_was_read_is_on_file_a_second_later_with_its_gaps() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let run = RunDirectory::create(folder.path(), "").expect("made");
        let name = SeriesName {
            name: "temperature".into(),
            of: "crate".into(),
            path: "sensor".into(),
            unit: "°C".into(),
        };
        let mut list = SeriesList::create(&run, std::slice::from_ref(&name), Sync::None).expect("made");
        let mut readings = vec![reading(1, Some(21.5)), reading(2, None)];
        let expected = readings.clone();
        list.take(&mut readings);
        assert!(readings.is_empty());
        list.advance(1_500_000_000).expect("young");
        assert_eq!(list.summary().rows, 0, "not due");
        list.advance(2_500_000_000).expect("written");
        assert_eq!((list.summary().rows, list.not_kept()), (2, 0));
        list.take(&mut vec![reading(3, Some(-1e300))]);
        list.finish().expect("written");
        let reader = SeriesReader::open(&run.table(Table::Series)).expect("whole");
        assert_eq!(reader.names(), [name]);
        assert_eq!(reader.read_all().expect("whole"), [expected, vec![reading(3, Some(-1e300))]].concat());
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let run = RunDirectory::create(folder.path(), "").expect("made");
        let mut list = SeriesList::create(&run, &[], Sync::None).expect("made");
        list.take(&mut (0..20_000).map(|second| reading(second, Some(0.0))).collect());
        list.finish().expect("written");
        assert_eq!(list.summary().rows + list.not_kept(), 20_000);
        assert!(list.not_kept() > 0);
    }
}
