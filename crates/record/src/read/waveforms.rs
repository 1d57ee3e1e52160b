//! Waveforms out of the table `waveforms`, whichever version recorded them.
//!
//! ```text
//!  waveforms.arrows ──► columns of a batch ──► RecordedWaveform: samples as the board meant them, period, offset, names of signals
//! ```

use std::path::Path;

use serde::Deserialize;
use thalweg_data::SourceId;

use super::table_reader::{BatchHead, TableReader};
use crate::error::RecordError;
use crate::table::{Kind, Table};

/// One waveform.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedWaveform {
    /// Row of its hit in `hits`.
    pub hit: u64,
    /// Time of its hit, picoseconds since run start.
    pub time_ps: i64,
    /// Channel of the experiment.
    pub channel: u16,
    /// The source.
    pub source: SourceId,
    /// Samples of the two analog signals; empty where there is none.
    pub analog: [Vec<i32>; 2],
    /// Samples of the digital signals 1 to 4 in bits 0 to 3; empty where there are none.
    pub digital: Vec<u8>,
    /// Picoseconds between samples, if known.
    pub sample_ps: Option<f64>,
    /// Picoseconds from the hit's time to the first sample, if known.
    pub first_sample_ps: Option<i64>,
    /// How many of its first samples repeat the end of the channel's waveform before, if it continues that one; see
    /// [`thalweg_data::record_join`].
    pub overlapped: Option<u32>,
    /// Which part of its record it is; `None` where it is the whole.
    pub part: Option<RecordedPart>,
    /// Names of the analog signals, if known.
    pub analog_names: [Option<String>; 2],
    /// Names of the digital signals, if known.
    pub digital_names: [Option<String>; 4],
}

/// Which part of a record a waveform is; see [`thalweg_data::record_part`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedPart {
    /// Its number, from 0.
    pub index: u16,
    /// How many parts the record has.
    pub count: u16,
    /// Samples of the record in front of it.
    pub first_sample: u32,
}

/// What the schema says of the signals of a source.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Signals {
    analog_probes: Option<Vec<Option<String>>>,
    digital_probes: Option<Vec<Option<String>>>,
}

/// Reads the table `waveforms`, batch by batch.
#[derive(Debug)]
pub struct WaveformsReader {
    reader: TableReader,
    signals: Vec<Signals>,
}

impl WaveformsReader {
    /// Opens a file of waveforms.
    ///
    /// # Errors
    /// When it cannot be read or is another table.
    pub fn open(path: &Path) -> Result<WaveformsReader, RecordError> {
        let reader = TableReader::open(path)?;
        match reader.table() {
            Table::Waveforms => {
                let words = reader.metadata().get("waveforms");
                let signals = words.and_then(|words| serde_json::from_str(words).ok()).unwrap_or_default();
                Ok(WaveformsReader { reader, signals })
            }
            other => {
                Err(reader.damaged(0, format!("the table `{}` where `waveforms` is wanted", other.word())))
            }
        }
    }

    /// Replaces `waveforms` by those of the next batch; `false` at the end. The checksum is verified.
    ///
    /// # Errors
    /// When the batch is damaged or cut.
    pub fn next_batch(&mut self, waveforms: &mut Vec<RecordedWaveform>) -> Result<bool, RecordError> {
        waveforms.clear();
        let Some(head) = self.reader.next_batch()? else { return Ok(false) };
        self.reader.verify_checksum(&head)?;
        self.rows(&head, waveforms)?;
        Ok(true)
    }

    fn rows(&self, head: &BatchHead, waveforms: &mut Vec<RecordedWaveform>) -> Result<(), RecordError> {
        let reader = &self.reader;
        let (hits, times) = (reader.numbers::<8>(head, 0)?, reader.numbers::<8>(head, 1)?);
        let (channels, sources) = (reader.numbers::<2>(head, 2)?, reader.numbers::<2>(head, 3)?);
        let rows = hits.iter().zip(&times).zip(&channels).zip(&sources);
        waveforms.extend(rows.map(|(((hit, time_ps), channel), source)| RecordedWaveform {
            hit: u64::from_le_bytes(*hit),
            time_ps: i64::from_le_bytes(*time_ps),
            channel: u16::from_le_bytes(*channel),
            source: SourceId(u16::from_le_bytes(*source)),
            ..RecordedWaveform::default()
        }));
        for (probe, names) in
            [["analog_1", "analog_1_wide"], ["analog_2", "analog_2_wide"]].iter().enumerate()
        {
            for column in names.iter().filter_map(|name| reader.column(name)) {
                let kind = reader.columns()[column].kind;
                self.each_list(head, column, waveforms, |waveform, items| match kind {
                    _ if items.is_empty() => {}
                    Kind::ListI16 => {
                        waveform.analog[probe] = numbers(items, |item| i16::from_le_bytes(item).into())
                    }
                    Kind::ListU16 => {
                        waveform.analog[probe] = numbers(items, |item| u16::from_le_bytes(item).into())
                    }
                    _ => waveform.analog[probe] = numbers(items, i32::from_le_bytes),
                })?;
            }
        }
        self.each_list(head, 6, waveforms, |waveform, items| waveform.digital = items.to_vec())?;
        if let Some(column) = reader.column("sample_ps") {
            let values = reader.optional_numbers::<8>(head, column)?;
            values
                .iter()
                .zip(&mut *waveforms)
                .for_each(|(value, to)| to.sample_ps = value.map(f64::from_le_bytes));
        }
        if let Some(column) = reader.column("first_sample_ps") {
            let values = reader.optional_numbers::<8>(head, column)?;
            let rows = values.iter().zip(&mut *waveforms);
            rows.for_each(|(value, to)| to.first_sample_ps = value.map(i64::from_le_bytes));
        }
        if let Some(column) = reader.column("overlapped") {
            let values = reader.optional_numbers::<4>(head, column)?;
            let rows = values.iter().zip(&mut *waveforms);
            rows.for_each(|(value, to)| to.overlapped = value.map(u32::from_le_bytes));
        }
        self.parts(head, waveforms)?;
        self.names(head, waveforms)
    }

    fn parts(&self, head: &BatchHead, waveforms: &mut [RecordedWaveform]) -> Result<(), RecordError> {
        let column = |name| self.reader.column(name);
        let (Some(index), Some(count), Some(first)) =
            (column("part"), column("parts"), column("first_sample"))
        else {
            return Ok(());
        };
        let indices = self.reader.optional_numbers::<2>(head, index)?;
        let counts = self.reader.optional_numbers::<2>(head, count)?;
        let firsts = self.reader.optional_numbers::<4>(head, first)?;
        for (((to, index), count), first) in waveforms.iter_mut().zip(indices).zip(counts).zip(firsts) {
            to.part = index.zip(count).zip(first).map(|((index, count), first)| RecordedPart {
                index: u16::from_le_bytes(index),
                count: u16::from_le_bytes(count),
                first_sample: u32::from_le_bytes(first),
            });
        }
        Ok(())
    }

    /// Names the signals by their codes.
    fn names(&self, head: &BatchHead, waveforms: &mut [RecordedWaveform]) -> Result<(), RecordError> {
        let name = |names: Option<&Vec<Option<String>>>, code: u16| names?.get(usize::from(code))?.clone();
        for (probe, column) in ["probe_1", "probe_2"].into_iter().enumerate() {
            let Some(column) = self.reader.column(column) else { return Ok(()) };
            let codes = self.reader.optional_numbers::<1>(head, column)?;
            for (waveform, code) in waveforms.iter_mut().zip(codes) {
                let signals = self.signals.get(waveform.source.index());
                let names = signals.and_then(|signals| signals.analog_probes.as_ref());
                waveform.analog_names[probe] = code.and_then(|code| name(names, code[0].into()));
            }
        }
        let Some(column) = self.reader.column("digital_probes") else { return Ok(()) };
        let codes = self.reader.optional_numbers::<2>(head, column)?;
        for (waveform, codes) in waveforms.iter_mut().zip(codes) {
            let signals = self.signals.get(waveform.source.index());
            let names = signals.and_then(|signals| signals.digital_probes.as_ref());
            let codes = codes.map(u16::from_le_bytes);
            waveform.digital_names =
                std::array::from_fn(|probe| codes.and_then(|codes| name(names, codes >> (4 * probe) & 15)));
        }
        Ok(())
    }

    /// Gives the bytes of each row's list to its waveform.
    fn each_list(
        &self,
        head: &BatchHead,
        column: usize,
        waveforms: &mut [RecordedWaveform],
        mut give: impl FnMut(&mut RecordedWaveform, &[u8]),
    ) -> Result<(), RecordError> {
        let (offsets, items) = self.reader.lists(head, column)?;
        let item_bytes = self.reader.columns()[column].kind.item_bytes();
        for (place, waveform) in offsets.windows(2).zip(waveforms) {
            give(waveform, &items[place[0] as usize * item_bytes..place[1] as usize * item_bytes]);
        }
        Ok(())
    }
}

fn numbers<const N: usize>(items: &[u8], number: impl Fn([u8; N]) -> i32) -> Vec<i32> {
    items.as_chunks::<N>().0.iter().map(|item| number(*item)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipc::columns::Columns;
    use crate::ipc::file::TableFile;
    use crate::settings::Compression;

    #[test]
    fn waveforms_as_they_were_recorded_at_first_are_still_read() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("waveforms.arrows");
        let shape = Table::Waveforms.shapes()[4];
        let mut columns = Columns::of(shape);
        for (row, samples) in [[-1, 70_000, 3], [4, 5, -32_769]].iter().enumerate() {
            columns.push(0, (row as u64).to_le_bytes());
            columns.push(1, (100 * row as i64).to_le_bytes());
            columns.push(2, 7u16.to_le_bytes());
            columns.push(3, 1u16.to_le_bytes());
            for (column, samples) in [(4, &samples[..]), (5, &[])] {
                columns.push_list(column, samples.len(), |bytes| {
                    bytes.copy_from_slice(
                        &samples.iter().flat_map(|sample: &i32| sample.to_le_bytes()).collect::<Vec<_>>(),
                    );
                });
            }
            columns.push_list(6, 1, |bytes| bytes[0] = row as u8);
            columns.end_row();
        }
        let mut file = TableFile::create_of(&path, Table::Waveforms, shape, &[]).expect("made");
        file.stage(&columns, Compression::None).expect("written");
        file.commit().expect("visible");
        drop(file);
        let mut reader = WaveformsReader::open(&path).expect("a table");
        let mut found = Vec::new();
        assert!(reader.next_batch(&mut found).expect("whole"));
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].analog, [vec![-1, 70_000, 3], vec![]]);
        assert_eq!(found[1].analog[0], [4, 5, -32_769]);
        assert_eq!((found[1].digital.as_slice(), found[1].channel, found[1].hit), (&[1][..], 7, 1));
        assert_eq!((found[0].sample_ps, found[0].first_sample_ps), (None, None));
        assert!(!reader.next_batch(&mut found).expect("the end"));
        let bytes = std::fs::read(&path).expect("readable");
        assert_eq!(super::super::check(&bytes).expect("whole").rows, 2);
    }
}
