//! CoMPASS list files: one record for each hit, with its waveform where the run has one.
//!
//! ```text
//!  hits ───────┐
//!  waveforms ──┴► board, channel, ps, energy, [keV], short gate, flags, [probe, samples] ──► NAME.BIN
//! ```
//! Every source is a board, in the order of their channels, or several where it has more channels than a board.

use std::io::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int16Type, Int32Type, Int64Type, UInt16Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use thalweg_data::Flags;
use thalweg_frontend::compass::Settings;
use thalweg_frontend::compass::emit::{self, Event};
use thalweg_frontend::compass::wire::{Fields, event};
use thalweg_record::Table;

use crate::error::ExportError;
use crate::exporter::{Exporter, TableHead};
use crate::run_source::RunSource;
use crate::table_stream::TableStream;
use crate::target::{Output, Target};

/// The flags that have a bit in both vocabularies.
const FLAGS: [(Flags, u32); 5] = [
    (Flags::TRIGGER_LOST, event::TRIGGER_LOST),
    (Flags::SATURATION, event::SATURATING),
    (Flags::PILE_UP, event::PILE_UP),
    (Flags::FINE_TIME, event::FINE_TIME),
    (Flags::FAKE, event::FAKE),
];
/// What a record says by its fields.
const SAID_BY_FIELDS: u16 = Flags::EXTRA.0 | Flags::NO_ENERGY.0 | Flags::NO_ENERGY_SHORT.0;
/// The code of the first analog probe, which is what waveforms begin with.
const PROBE: u8 = 1;

/// Writes list files.
pub(crate) struct CompassExporter {
    to: Option<Output>,
    fields: Fields,
    boards: Boards,
    waveforms: Option<Waveforms>,
    record: Vec<u8>,
    row: u64,
    left_out: LeftOut,
    /// What the run lacks.
    lacking: Option<String>,
}

/// What the format could not hold.
#[derive(Debug, Default)]
struct LeftOut {
    before_zero: u64,
    without_energy: u64,
    with_other_flags: u64,
    without_waveform: u64,
    digital_or_second: u64,
}

impl CompassExporter {
    /// Begins a file.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(run: &RunSource, target: &Target) -> Result<CompassExporter, ExportError> {
        Ok(CompassExporter {
            to: Some(target.output("")?),
            fields: Fields::ENERGY.with(Fields::ENERGY_SHORT),
            boards: Boards::of(run),
            waveforms: None,
            record: Vec::new(),
            row: 0,
            left_out: LeftOut::default(),
            lacking: None,
        })
    }

    fn hit(&mut self, batch: &RecordBatch, row: usize, kev: Option<f32>) -> Result<(), ExportError> {
        let number = |column: usize| {
            let column = batch.column(column).as_primitive::<UInt16Type>();
            column.is_valid(row).then(|| column.value(row))
        };
        let (channel, energy, energy_short) = (number(1).unwrap_or(0), number(2), number(3));
        let flags = Flags(number(4).unwrap_or(0));
        let samples =
            self.waveforms.as_mut().map(|waveforms| waveforms.samples(self.row, &mut self.left_out));
        self.row += 1;
        let samples = samples.transpose()?.unwrap_or_default();
        let Ok(time_ps) = u64::try_from(batch.column(0).as_primitive::<Int64Type>().value(row)) else {
            self.left_out.before_zero += 1;
            return Ok(());
        };
        self.left_out.without_energy += u64::from(energy.is_none() || energy_short.is_none());
        let said = FLAGS.iter().filter(|(flag, _)| flags.has(*flag));
        let (own, raw) = said.fold((0, 0), |(own, raw), (flag, mask)| (own | flag.0, raw | mask));
        self.left_out.with_other_flags += u64::from(flags.0 & !(own | SAID_BY_FIELDS) != 0);
        self.left_out.without_waveform += u64::from(self.fields.has(Fields::WAVEFORM) && samples.is_empty());
        let (board, channel) = self.boards.place(channel);
        let event = Event {
            board,
            channel,
            time_ps,
            energy: energy.unwrap_or(0),
            calibrated: kev.map_or(f64::NAN, f64::from),
            energy_short: energy_short.unwrap_or(0),
            flags: raw,
            probe: PROBE,
            samples,
        };
        emit::record(self.fields, &event, &mut self.record);
        Ok(())
    }

    fn write(&mut self) -> Result<(), ExportError> {
        let to = self.to.as_mut().expect("a file that is not finished");
        to.write_all(&self.record).map_err(ExportError::writer)?;
        self.record.clear();
        Ok(())
    }
}

impl Exporter for CompassExporter {
    fn begin(&mut self, head: &TableHead<'_>) -> Result<(), ExportError> {
        if head.schema.field_with_name("energy_kev").is_ok() {
            self.fields = self.fields.with(Fields::CALIBRATED);
        }
        self.lacking = head.run.lacking(Table::Waveforms);
        if let Some(stream) = head.run.beside(head.file, Table::Waveforms)? {
            self.waveforms = Some(Waveforms { stream, batch: None, row: 0 });
            self.fields = self.fields.with(Fields::WAVEFORM);
        }
        emit::header(self.fields, &mut self.record);
        self.write()
    }

    fn batch(&mut self, batch: &RecordBatch) -> Result<(), ExportError> {
        let kev = batch.column_by_name("energy_kev").map(|column| column.as_primitive::<Float32Type>());
        for row in 0..batch.num_rows() {
            let kev = kev.filter(|kev| kev.is_valid(row)).map(|kev| kev.value(row));
            self.hit(batch, row, kev)?;
            if self.record.len() > 1 << 16 {
                self.write()?;
            }
        }
        self.write()
    }

    fn end(&mut self, run: &RunSource) -> Result<(), ExportError> {
        self.waveforms.as_mut().map_or(Ok(()), |waveforms| waveforms.stream.end(run))
    }

    fn finish(&mut self) -> Result<Vec<String>, ExportError> {
        let mut output = self.to.take().expect("a file that is not finished");
        output.flush().map_err(ExportError::writer)?;
        let LeftOut { before_zero, without_energy, with_other_flags, without_waveform, digital_or_second } =
            self.left_out;
        let remarks = [
            (
                before_zero,
                "hits are left out, because they are before the run's zero, and the format has no negative times",
            ),
            (without_energy, "hits have 0 for an energy that their board does not send"),
            (with_other_flags, "hits have flags for which the format has no bit"),
            (without_waveform, "hits have no waveform: their records have no samples"),
            (
                digital_or_second,
                "waveforms have a second analog probe or digital probes, which the format cannot hold",
            ),
        ];
        let remarks = remarks.into_iter().filter(|(count, _)| *count > 0);
        let lacking = self.lacking.take().into_iter();
        Ok(lacking.chain(remarks.map(|(count, what)| format!("{count} {what}"))).collect())
    }
}

/// Which board and channel of a list file a channel of the experiment is.
#[derive(Debug)]
struct Boards {
    /// First channel, number of channels and first board of each source, by first channel.
    sources: Vec<(u16, u16, u16)>,
    channels_per_board: u16,
}

impl Boards {
    fn of(run: &RunSource) -> Boards {
        let channels_per_board = Settings::default().channels_per_board;
        let mut ranges: Vec<(u16, u16)> =
            run.record.channels.values().map(|channels| (channels.first, channels.count)).collect();
        ranges.sort_unstable();
        let mut board = 0;
        let sources = ranges.into_iter().map(|(first, count)| {
            let own = board;
            board += count.div_ceil(channels_per_board);
            (first, count, own)
        });
        Boards { sources: sources.collect(), channels_per_board }
    }

    /// Board and channel; of runs that do not say whose channels are whose, by the number alone.
    fn place(&self, channel: u16) -> (u16, u16) {
        let own = |(first, count, board): &(u16, u16, u16)| {
            channel.checked_sub(*first).filter(|offset| offset < count).map(|offset| (*board, offset))
        };
        let (board, offset) = self.sources.iter().find_map(own).unwrap_or((0, channel));
        (board + offset / self.channels_per_board, offset % self.channels_per_board)
    }
}

/// The waveforms beside the hits, which are in the same order.
#[derive(Debug)]
struct Waveforms {
    stream: TableStream,
    batch: Option<RecordBatch>,
    row: usize,
}

impl Waveforms {
    /// The samples of the hit in row `hit`; none where it has no waveform.
    fn samples(&mut self, hit: u64, left_out: &mut LeftOut) -> Result<Vec<u16>, ExportError> {
        loop {
            let Some(batch) = self.batch.as_ref().filter(|batch| self.row < batch.num_rows()) else {
                match self.stream.next_batch()? {
                    Some(batch) => (self.batch, self.row) = (Some(batch), 0),
                    None => return Ok(Vec::new()),
                }
                continue;
            };
            let owner = batch.column(0).as_primitive::<UInt64Type>().value(self.row);
            if owner > hit {
                return Ok(Vec::new());
            }
            self.row += 1;
            if owner == hit {
                let list = |name| Some(batch.column_by_name(name)?.as_list::<i32>().value(self.row - 1));
                let has = |name| list(name).is_some_and(|items| !items.is_empty());
                let others = ["analog_2", "analog_2_wide", "digital"].into_iter().any(has);
                left_out.digital_or_second += u64::from(others);
                let wide = list("analog_1_wide").filter(|samples| !samples.is_empty());
                return wide
                    .or_else(|| list("analog_1"))
                    .map_or(Ok(Vec::new()), |samples| sixteen_bits(&samples));
            }
        }
    }
}

/// Samples as recorded by any version, in the 16 bits of the format.
fn sixteen_bits(samples: &dyn Array) -> Result<Vec<u16>, ExportError> {
    Ok(match samples.data_type() {
        DataType::Int16 => {
            samples.as_primitive::<Int16Type>().values().iter().map(|sample| *sample as u16).collect()
        }
        DataType::UInt16 => samples.as_primitive::<UInt16Type>().values().to_vec(),
        _ => {
            let samples = samples.as_primitive::<Int32Type>().values();
            samples.iter().map(|sample| sample_of(*sample)).collect::<Result<_, _>>()?
        }
    })
}

/// A sample in the 16 bits of the format, which has probes with a sign and probes without.
fn sample_of(sample: i32) -> Result<u16, ExportError> {
    let signed = || i16::try_from(sample).map(|sample| sample as u16);
    u16::try_from(sample).or_else(|_| signed()).map_err(|_| {
        ExportError::Writer(format!("a sample of {sample}, and CoMPASS holds 16 bits: choose another format"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_is_a_board_and_a_large_one_several() {
        let boards = Boards { sources: vec![(0, 16, 0), (16, 128, 1), (200, 8, 3)], channels_per_board: 64 };
        let places = [3, 16, 79, 80, 143, 207].map(|channel| boards.place(channel));
        assert_eq!(places, [(0, 3), (1, 0), (1, 63), (2, 0), (2, 63), (3, 7)]);
        assert_eq!(boards.place(150), (2, 22), "a channel of no source goes by its number");
    }

    #[test]
    fn samples_keep_their_sixteen_bits() {
        assert_eq!(sample_of(65_535).expect("fits"), 65_535);
        assert_eq!(sample_of(-1).expect("fits"), 0xFFFF);
        assert!(sample_of(65_536).is_err() && sample_of(-32_769).is_err());
    }
}
