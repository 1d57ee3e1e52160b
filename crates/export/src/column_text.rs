//! What each column means: its unit and a sentence, for the schemas of other formats.
//!
//! ```text
//!  table, column ──► unit, description ──► metadata of an Arrow field
//! ```
//! The unit of a plain number or word is `1`.

use std::collections::HashMap;

use arrow_schema::Field;
use thalweg_record::Table;

/// Unit and description of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ColumnText {
    /// Unit: `ps`, `ns`, `keV`, `ADC channels`, `bytes`, `ticks`; `1` of plain numbers and words.
    pub unit: &'static str,
    /// What it says.
    pub description: &'static str,
}

/// The text of a column of a table; `None` of a column that no table has.
pub(crate) fn column_text(table: Table, name: &str) -> Option<ColumnText> {
    let found = own_text(table, name).or_else(|| waveform_text(name)).or_else(|| shared_text(name));
    let (unit, description) = found?;
    Some(ColumnText { unit, description })
}

/// `field` with unit and description in its metadata.
pub(crate) fn described(table: Table, field: &Field) -> Field {
    let Some(text) = column_text(table, field.name()) else { return field.clone() };
    let mut metadata: HashMap<String, String> = field.metadata().clone().into();
    metadata.insert("unit".to_owned(), text.unit.to_owned());
    metadata.insert("description".to_owned(), text.description.to_owned());
    field.clone().with_metadata(metadata)
}

/// Columns that mean something of their own in one table.
fn own_text(table: Table, name: &str) -> Option<(&'static str, &'static str)> {
    Some(match (table, name) {
        (Table::Extras, "number") => ("1", "trigger id of a scope event, or probe code of a waveform"),
        (Table::Raw, "kind") => ("1", "0 a mark alone, 1 a chunk of a stream, 2 a datagram"),
        (Table::Raw, "flags") => ("1", "bit 0: first row of a received batch; bit 1: the source ended"),
        (Table::Raw, "payload") => ("bytes", "received bytes"),
        (Table::Statistics, "triggers") => ("1", "triggers that the board counted"),
        (Table::Statistics, "saved") => ("1", "triggers that the board kept"),
        (Table::Events, "fragments") => ("1", "number of fragments of the event"),
        (Table::Events, "bytes") => ("bytes", "size of all fragments of the event"),
        (Table::Events, "attempt") => ("1", "0, or how often the event was built before"),
        (Table::Fragments, "payload") => ("bytes", "what the source sent for the trigger, header included"),
        (Table::Coincidences, "event") => ("1", "number of the event, the same on each of its rows"),
        (Table::Losses, "first") => ("1", "first trigger that is missing, where known"),
        (Table::Losses, "last") => ("1", "last trigger that is missing, where known"),
        (Table::Losses, "unit") => ("1", "what is counted: hits, fragments, bytes and others"),
        (Table::Ranges, "first") => ("1", "first trigger of the range"),
        (Table::Ranges, "last") => ("1", "last trigger of the range"),
        (Table::Ranges, "attempt") => ("1", "0, or how often the range was given to another builder unit"),
        (Table::Ranges, "events") => ("1", "number of events of the range"),
        (Table::Ranges, "fragments") => ("1", "number of fragments of the range"),
        (Table::Ranges, "bytes") => ("bytes", "size of the range's fragments"),
        (Table::Series, "value") => {
            ("1", "the value, in the unit that its series has; null where it could not be read")
        }
        _ => return None,
    })
}

/// Columns of waveforms.
fn waveform_text(name: &str) -> Option<(&'static str, &'static str)> {
    Some(match name {
        "analog_1" => ("ADC channels", "samples of the first analog probe"),
        "analog_2" => ("ADC channels", "samples of the second analog probe; empty where there is none"),
        "analog_1_wide" => {
            ("ADC channels", "the same where `analog_1` cannot hold them, which is empty then")
        }
        "analog_2_wide" => {
            ("ADC channels", "the same where `analog_2` cannot hold them, which is empty then")
        }
        "sample_ps" => ("ps", "time between two samples; null where it is not known"),
        "first_sample_ps" => {
            ("ps", "time of the first sample after the hit's, negative before it; null where it is not known")
        }
        "probe_1" => (
            "1",
            "code of the first analog probe, whose name is in `thalweg.waveforms`; null where it is not known",
        ),
        "probe_2" => ("1", "code of the second analog probe, likewise"),
        "digital_probes" => {
            ("1", "codes of the digital probes 1 to 4 in bits 3..0, 7..4, 11..8 and 15..12, likewise")
        }
        "overlapped" => (
            "1",
            "how many of the first samples repeat the end of the channel's row before, where it continues that one; else null",
        ),
        "part" => ("1", "which part of its record the row is, from 0; null where it is the whole record"),
        "parts" => ("1", "how many parts the record has; null where it is not divided"),
        "first_sample" => {
            ("1", "samples of the channel in front of the part; null where the record is not divided")
        }
        "digital" => ("1", "samples of the digital probes 1 to 4 in bits 0 to 3"),
        _ => return None,
    })
}

/// Columns that mean the same wherever they are.
fn shared_text(name: &str) -> Option<(&'static str, &'static str)> {
    Some(match name {
        "time_ps" => ("ps", "time since run start, by the board's clock"),
        "channel" => ("1", "channel of the experiment"),
        "energy" => ("ADC channels", "long-gate charge or pulse height; null where the format sends none"),
        "energy_short" => ("ADC channels", "short-gate charge; null where the format sends none"),
        "energy_kev" => {
            ("keV", "calibrated energy; null where the channel has no calibration or the hit no energy")
        }
        "channel_name" => ("1", "name of the channel in the run's table of channels"),
        "flags" => ("1", "bits that describe the hit, as `docs/experiment/recordings.md` lists them"),
        "hit" => ("1", "row of the table `hits` that this belongs to, from 0"),
        "source" => ("1", "number of the source, in the order of `thalweg.sources`"),
        "raw_flags" => ("1", "flag word as the board sent it"),
        "info" => ("1", "the board's own description of the samples"),
        "layout" => ("1", "how the board packed the samples"),
        "truncated" => ("1", "whether the board cut the waveform short"),
        "words" => ("1", "user words of the board"),
        "mark_ns" => ("ns", "arrival, time since run start by the receiver's clock"),
        "real_time_ps" => ("ps", "real time that the board counted"),
        "dead_time_ps" => ("ps", "dead time that the board counted"),
        "tag" => ("1", "the source's own mark of the bytes"),
        "trigger" => ("1", "number of the trigger, extended to 64 bits"),
        "closing" => ("1", "why the event was passed on"),
        "selected" => ("1", "why the event filter let the event be recorded"),
        "missing" => ("1", "numbers of the sources that did not answer"),
        "first_arrival_ns" => ("ns", "arrival of the first fragment, time since run start"),
        "closed_ns" => ("ns", "when the event was passed on, time since run start"),
        "first_fragment" => ("1", "row of `fragments` at which the event's fragments begin, from 0"),
        "ticks" => ("ticks", "the board's own time of the trigger; 0 where it sends none"),
        "dt_ps" => ("ps", "time after the event's reference, or after its first hit"),
        "multiplicity" => ("1", "number of different channels, or groups, of the event"),
        "is_reference" => ("1", "whether this hit is the reference of its event"),
        "from_ns" => ("ns", "counted after this time since run start"),
        "until_ns" => ("ns", "counted before this time since run start"),
        "subject" => ("1", "source, board, link or unit that lost the data"),
        "stage" => ("1", "stage of the path where the data were lost"),
        "reason" => ("1", "why the data were lost"),
        "count" => ("1", "how many were lost; a negative count corrects earlier rows"),
        "quality" => ("1", "how well the count is known: exact, at_least, unknown"),
        "ranges" => ("1", "1, or how many ranges the row joins"),
        "epoch" => ("ns", "identifies the event manager: about its start, since 1970"),
        "readout" => ("1", "number of the readout unit; null for whole events"),
        "builder" => ("1", "number of the builder unit"),
        "fate" => ("1", "what happened to the range"),
        "digest" => ("1", "sum over the events of a number of trigger, fragments and bytes, modulo 2^64"),
        "time_ns" => ("ns", "when the value was read, time since run start"),
        "series" => ("1", "name of the series"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_of_every_table_has_a_unit_that_its_name_does_not_contradict() {
        for table in Table::ALL {
            for column in table.shapes().iter().copied().flatten() {
                let text = column_text(table, column.name);
                let text = text.unwrap_or_else(|| panic!("{}.{} has no text", table.word(), column.name));
                assert!(!text.unit.is_empty() && !text.description.is_empty());
                for unit in ["ps", "ns"] {
                    let is_named = column.name.ends_with(&format!("_{unit}"));
                    assert!(!is_named || text.unit == unit, "{}: {}", column.name, text.unit);
                }
            }
        }
    }
}
