//! The picture of a run's slow control: each series over time.
//!
//! ```text
//!  series.arrows ─► readings in stretches of time, the last value until the next ─► a panel for each unit, a line for each series
//! ```
//! A line has a gap where a value could not be read, until the next that could.

use std::collections::BTreeMap;
use std::path::Path;

use thalweg_record::read::SeriesReader;
use thalweg_record::{Reading, RunDirectory, RunRecord, SeriesName, Table};

use super::PlotError;
use super::timelines::{MOST_LINES, draw};
use crate::plot::{Line, Sum, TimePanel, Timeline};

/// The readings of a series in one stretch.
#[derive(Clone, Copy, Debug, Default)]
struct Readings {
    values: u64,
    sum: f64,
    failed: u64,
}

impl Sum for Readings {
    fn join(&mut self, other: &Readings) {
        self.values += other.values;
        self.sum += other.sum;
        self.failed += other.failed;
    }
}

/// Draws the series of a run over time.
///
/// # Errors
/// When the table is not there or cannot be read.
pub(super) fn series_picture(
    run: &Path,
    directory: &RunDirectory,
    record: &RunRecord,
) -> Result<String, PlotError> {
    let reader = SeriesReader::open(&directory.table(Table::Series))?;
    let names = reader.names();
    let readings = reader.read_all()?;
    let (count, failed) = (readings.len(), readings.iter().filter(|reading| reading.value.is_none()).count());
    let panels = panels(&names, &readings);
    let not_read = match failed {
        0 => String::new(),
        some => format!("  ·  {some} could not be read"),
    };
    let summary = format!("{} series, {count} readings{not_read}", names.len());
    Ok(draw(run, record, (&panels, &[]), &summary))
}

/// A panel for each unit, or several where its lines could not be distinguished.
fn panels(names: &[SeriesName], readings: &[Reading]) -> Vec<TimePanel> {
    let mut over_time: BTreeMap<&str, Timeline<Readings>> = BTreeMap::new();
    for reading in readings {
        let sum = over_time.entry(&reading.series).or_default().at(reading.time_ns);
        match reading.value {
            Some(value) => sum.join(&Readings { values: 1, sum: value, failed: 0 }),
            None => sum.failed += 1,
        }
    }
    let mut of_unit: BTreeMap<&str, Vec<Line>> = BTreeMap::new();
    for name in names {
        let Some(timeline) = over_time.get(&name.name[..]) else { continue };
        of_unit.entry(&name.unit).or_default().push(line(&name.name, timeline));
    }
    let panels =
        of_unit.iter().flat_map(|(unit, lines)| lines.chunks(MOST_LINES).map(|own| panel(unit, own)));
    panels.collect()
}

/// The mean of each stretch; of one without a reading, the value before it.
fn line(name: &str, timeline: &Timeline<Readings>) -> Line {
    let mut standing = None;
    timeline.line(name, |readings, _| {
        if readings.values > 0 {
            standing = Some(readings.sum / readings.values as f64);
        } else if readings.failed > 0 {
            standing = None;
        }
        standing
    })
}

fn panel(unit: &str, lines: &[Line]) -> TimePanel {
    let values = lines.iter().flat_map(|line| line.values.iter().flatten());
    let (low, high) =
        values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(*value), high.max(*value)));
    let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
    // A constant value is a line in the middle.
    let margin = if high > low { 0.08 * (high - low) } else { high.abs().max(1.0) * 0.1 };
    let title = match lines {
        [only] => only.name.clone(),
        several => format!("{} series", several.len()),
    };
    let y_title = if unit.is_empty() { "value".to_owned() } else { unit.to_owned() };
    TimePanel { title, y_title, y_range: (low - margin, high + margin), lines: lines.to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str, unit: &str) -> SeriesName {
        SeriesName { name: name.to_owned(), unit: unit.to_owned(), ..SeriesName::default() }
    }

    fn reading(seconds: u64, series: &str, value: Option<f64>) -> Reading {
        Reading { time_ns: seconds * 1_000_000_000, series: series.to_owned(), value }
    }

    #[test]
    fn series_of_one_unit_share_a_panel_and_others_have_their_own() {
        let names = [name("left", "°C"), name("supply", "V"), name("right", "°C"), name("never read", "A")];
        let readings = [("left", 20.0), ("supply", 5.0), ("right", 30.0)];
        let readings = readings.map(|(series, value)| reading(1, series, Some(value)));
        let found: Vec<_> = panels(&names, &readings)
            .into_iter()
            .map(|panel| (panel.title, panel.y_title, panel.lines.len()))
            .collect();
        assert_eq!(
            found,
            [("supply".to_owned(), "V".to_owned(), 1), ("2 series".to_owned(), "°C".to_owned(), 2)]
        );
    }

    #[test]
    fn a_value_stands_until_the_next_and_a_gap_as_long_as_nothing_can_be_read() {
        let readings =
            [(0, Some(1.0)), (2, Some(3.0)), (4, None), (6, Some(-2.0)), (8, Some(-2.0)), (9, Some(-2.0))];
        let readings: Vec<_> = readings.iter().map(|(at, value)| reading(*at, "it", *value)).collect();
        let panels = panels(&[name("it", "")], &readings);
        let line = &panels[0].lines[0];
        let at = |seconds: f64| line.values[(seconds / line.step_s) as usize];
        assert_eq!([0.5, 1.9, 2.5, 3.9].map(at), [Some(1.0), Some(1.0), Some(3.0), Some(3.0)]);
        assert_eq!([4.5, 5.5, 6.5, 7.5].map(at), [None, None, Some(-2.0), Some(-2.0)]);
        let (low, high) = panels[0].y_range;
        assert!(low < -2.0 && high > 3.0, "{low} to {high}");
    }

    #[test]
    fn what_does_not_change_or_was_never_read_has_a_range_all_the_same() {
        for values in [[Some(0.0); 2], [Some(-7.0); 2], [None; 2]] {
            let readings = [0, 5].map(|at| reading(at, "it", values[0]));
            let panels = panels(&[name("it", "")], &readings);
            let (low, high) = panels[0].y_range;
            assert!(low < high && low.is_finite() && high.is_finite(), "{low} to {high} of {values:?}");
        }
    }
}
