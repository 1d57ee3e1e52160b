//! Spectra for other programs.
//!
//! ```text
//!  SpectrumSet ─► UHI JSON   boost-histogram, hist, mplhep, uproot
//!              └► ROOT JSON  JSROOT, and ROOT through TBufferJSON
//! ```
//! UHI: the serialisation schema of scikit-hep's Universal Histogram Interface, version 1. ROOT: an object of class `TH1D` or `TH2D` as
//! TBufferJSON writes it; bins are numbered from 1, and bin 0 and the last are underflow and overflow. Both have the live time and the
//! corrected numbers in `metadata`. No member of a `TH1` can hold them: JSROOT refuses to draw a histogram with a `TNamed` in `fFunctions`. So
//! ROOT JSON has one member more, which JSROOT keeps and ROOT passes over, and the title says them to whoever sees the histogram.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};
use thalweg_data::Quality;

use super::axis::Axis;
use super::catalogue::{Info, Kind};
use super::set::{SpectrumSet, Totals};
use super::settings::{At, SpectrumError};
use crate::normalise::{Corrected, Normalised, corrected_events, corrected_together};

/// A spectrum as UHI says it, but for the counts as they are: as a tree of JSON, those of a run would take many times their memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UhiHistogram {
    uhi_schema: u32,
    writer_info: Value,
    axes: Value,
    storage: UhiStorage,
    metadata: Value,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct UhiStorage {
    #[serde(rename = "type")]
    kind: &'static str,
    values: UhiCounts,
}

/// UHI counts the last axis fastest.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum UhiCounts {
    Line(Vec<u64>),
    Plane(Vec<Vec<u64>>),
}

/// The spectra of a run as a file has them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SavedSpectra {
    /// A JSON object with a histogram by the name of each spectrum.
    pub text: Vec<u8>,
    /// Names of those that were filled and have no place in it.
    pub left_out: Vec<String>,
}

/// Bytes of a bin as text: a digit and a comma.
const LEAST_BYTES_OF_BIN: usize = 2;

impl SpectrumSet {
    /// One spectrum as UHI says it.
    ///
    /// # Errors
    /// When there is none of this number.
    pub fn uhi(&self, id: u32) -> Result<UhiHistogram, SpectrumError> {
        self.uhi_of(id, &self.history().normalised())
    }

    /// The same, with what is known of each channel, by row of the channel map.
    fn uhi_of(&self, id: u32, channels: &[Normalised]) -> Result<UhiHistogram, SpectrumError> {
        let mut counts = Vec::new();
        let totals = self.read(id, &mut counts)?;
        let info = self.info(id)?;
        let has_flow = info.axes.len() == 1;
        let axis = |axis: &Axis| {
            json!({
                "type": "regular", "lower": axis.low, "upper": axis.high, "bins": axis.bins,
                "underflow": has_flow, "overflow": has_flow, "circular": false,
                "metadata": { "label": labelled(axis) },
            })
        };
        let values = match info.axes.len() {
            1 => UhiCounts::Line(std::iter::once(totals.below).chain(counts).chain([totals.above]).collect()),
            _ => {
                // We count the first axis fastest.
                let (columns, rows) = (info.axes[0].bins as usize, info.axes[1].bins as usize);
                let column = |x: usize| (0..rows).map(|y| counts[y * columns + x]).collect();
                UhiCounts::Plane((0..columns).map(column).collect())
            }
        };
        Ok(UhiHistogram {
            uhi_schema: 1,
            writer_info: json!({ "thalweg": { "version": env!("CARGO_PKG_VERSION") } }),
            axes: info.axes.iter().map(axis).collect(),
            storage: UhiStorage { kind: "int", values },
            metadata: Shown::of(self, info, totals, channels).metadata(info, totals),
        })
    }

    /// Spectra that anything was filled into, as UHI says it, in at most `most_bytes` of JSON text: those that the user describes first, then
    /// those of one axis. One that does not fit takes no place from a smaller one behind it.
    ///
    /// # Errors
    /// When JSON has no way to say one.
    pub fn all_uhi(&self, most_bytes: usize) -> serde_json::Result<SavedSpectra> {
        let filled = |info: &&Info| self.totals(info.id).is_ok_and(|totals| totals.entries > 0);
        let mut spectra: Vec<&Info> = self.spectra().iter().filter(filled).collect();
        spectra.sort_by_key(|info| (info.kind != Kind::Own, info.axes.len()));
        let (keys, channels) = (self.keys(), self.history().normalised());
        let (mut text, mut left_out) = (Vec::from(b"{"), Vec::new());
        for info in spectra {
            let (key, before) = (&keys[info.id as usize], text.len());
            // A bin takes a digit and a comma at least: what cannot fit is not put into words.
            if before + LEAST_BYTES_OF_BIN * info.bins() < most_bytes
                && let Ok(histogram) = self.uhi_of(info.id, &channels)
            {
                if before > 1 {
                    text.push(b',');
                }
                serde_json::to_writer(&mut text, key)?;
                text.push(b':');
                serde_json::to_writer(&mut text, &histogram)?;
            }
            if text.len() == before || text.len() >= most_bytes {
                text.truncate(before);
                left_out.push(key.clone());
            }
        }
        text.push(b'}');
        Ok(SavedSpectra { text, left_out })
    }

    /// The name of each spectrum among all, by number: what it is called and its place on the path, and its channel where that is not enough,
    /// as of two channels of one name. It does not depend on which spectra were filled.
    fn keys(&self) -> Vec<String> {
        let place = |at: At| serde_json::to_value(at).unwrap_or_default();
        let of = |info: &Info| format!("{} ({})", info.name, place(info.at).as_str().unwrap_or_default());
        let plain: Vec<String> = self.spectra().iter().map(of).collect();
        let mut taken = BTreeMap::<&str, usize>::new();
        plain.iter().for_each(|key| *taken.entry(key).or_default() += 1);
        let key = |(info, key): (&Info, &String)| match info.channel {
            Some(channel) if taken[&key[..]] > 1 => format!("{key}, channel {channel}"),
            // Names of the user's own are unique.
            _ => key.clone(),
        };
        self.spectra().iter().zip(&plain).map(key).collect()
    }

    /// One spectrum as ROOT says it.
    ///
    /// # Errors
    /// When there is none of this number.
    pub fn root(&self, id: u32) -> Result<Value, SpectrumError> {
        let mut counts = Vec::new();
        let totals = self.read(id, &mut counts)?;
        let info = self.info(id)?;
        let array = with_flow(info, &counts, totals);
        let shown = Shown::of(self, info, totals, &self.history().normalised());
        let mut histogram = json!({
            "_typename": if info.axes.len() == 1 { "TH1D" } else { "TH2D" },
            "fUniqueID": 0, "fBits": 8, "fName": format!("spectrum_{id}"), "fTitle": shown.title(&info.name),
            "fLineColor": 602, "fLineStyle": 1, "fLineWidth": 1, "fFillColor": 0, "fFillStyle": 1001,
            "fMarkerColor": 1, "fMarkerStyle": 1, "fMarkerSize": 1,
            "fNcells": array.len(),
            "fXaxis": root_axis("xaxis", info.axes.first()),
            "fYaxis": root_axis("yaxis", info.axes.get(1)),
            "fZaxis": root_axis("zaxis", None),
            "fBarOffset": 0, "fBarWidth": 1000, "fEntries": totals.entries,
            "fTsumw": 0, "fTsumw2": 0, "fTsumwx": 0, "fTsumwx2": 0,
            "fMaximum": -1111, "fMinimum": -1111, "fNormFactor": 0,
            "fContour": [], "fSumw2": [], "fOption": "",
            "fFunctions": { "_typename": "TList", "name": "TList", "arr": [], "opt": [] },
            "fBufferSize": 0, "fBuffer": [], "fBinStatErrOpt": 0, "fStatOverflows": 2,
            "fArray": array,
            "metadata": shown.metadata(info, totals),
        });
        if info.axes.len() == 2
            && let Some(fields) = histogram.as_object_mut()
        {
            let more = ["fScalefactor", "fTsumwy", "fTsumwy2", "fTsumwxy"];
            fields.extend(more.map(|name| (name.to_owned(), json!(u8::from(name == "fScalefactor")))));
        }
        Ok(histogram)
    }
}

/// What is known of a spectrum beside its counts.
struct Shown {
    /// Live time of its channel, where its counts are of that time.
    own: Option<Normalised>,
    loss_corrected: Corrected,
    rate_hz: Corrected,
}

impl Shown {
    /// Of a spectrum, with what is known of each channel, by row of the channel map.
    fn of(set: &SpectrumSet, info: &Info, totals: Totals, channels: &[Normalised]) -> Shown {
        // What was emptied has counts of another time than the live time.
        let is_whole = !set.was_emptied(info.id);
        let own = info.channel.and_then(|_| channels.get(set.row_of(info)?)).filter(|_| is_whole);
        let all = || channels.iter().copied();
        let (loss_corrected, rate_hz) = match (own, info.at) {
            _ if !is_whole => (Corrected::UNKNOWN, Corrected::UNKNOWN),
            (Some(own), At::Received | At::Kept) => {
                (own.corrected(totals.entries), own.rate_of_hz(totals.entries))
            }
            (_, At::Events) => (corrected_events(totals.entries, all()), Corrected::UNKNOWN),
            (None, _) => (corrected_together(totals.entries, all()), Corrected::UNKNOWN),
        };
        Shown { own: own.filter(|_| info.at != At::Events).copied(), loss_corrected, rate_hz }
    }

    fn metadata(&self, info: &Info, totals: Totals) -> Value {
        let own = self.own.as_ref();
        let mut metadata = json!({
            "name": info.name, "title": info.name, "kind": info.kind, "at": info.at, "channel": info.channel,
            "entries": totals.entries, "below": totals.below, "above": totals.above, "beside": totals.beside,
            "real_time_s": own.and_then(|own| own.real_time_s),
            "live_time_s": own.and_then(|own| own.live_time_s),
            "live_time_quality": own.map_or(Quality::Unknown, |own| own.live_time_quality),
            "dead_time_fraction": own.and_then(Normalised::dead_time_fraction),
        });
        if let Some(fields) = metadata.as_object_mut() {
            enter("loss_corrected", &self.loss_corrected, fields);
            enter("rate_hz", &self.rate_hz, fields);
            // The schema knows no null.
            fields.retain(|_, value| !value.is_null());
        }
        metadata
    }

    /// Name, live time and corrected rate in the words that ROOT draws: `#pm` is ±, `#geq` is ≥.
    fn title(&self, name: &str) -> String {
        let least = |quality| if quality == Quality::AtLeast { "#geq " } else { "" };
        let own = self.own.as_ref();
        let live = match own.and_then(|own| Some((own.live_time_s?, least(own.live_time_quality)))) {
            Some((seconds, least)) => format!("live time {least}{seconds:.3} s"),
            None => "live time unknown".to_owned(),
        };
        match self.rate_hz {
            Corrected { value: Some(rate), uncertainty: Some(uncertainty), quality, .. } => {
                let least = least(quality);
                format!("{name}, {live}, {least}{rate:.1} #pm {uncertainty:.1} per second of live time")
            }
            _ => format!("{name}, {live}"),
        }
    }
}

fn labelled(axis: &Axis) -> String {
    if axis.unit.is_empty() { axis.label.clone() } else { format!("{} [{}]", axis.label, axis.unit) }
}

/// A number with its uncertainty, interval and quality, in fields of their own: the schema knows no objects in metadata.
fn enter(name: &str, number: &Corrected, fields: &mut Map<String, Value>) {
    let Corrected { value, uncertainty, low_95, high_95, quality } = *number;
    let parts = [("", value), ("_uncertainty", uncertainty), ("_low_95", low_95), ("_high_95", high_95)];
    fields.extend(parts.map(|(part, number)| (format!("{name}{part}"), json!(number))));
    fields.insert(format!("{name}_quality"), json!(quality));
}

/// Counts with a bin before and behind each axis.
fn with_flow(info: &Info, counts: &[u64], totals: Totals) -> Vec<u64> {
    let columns = info.axes[0].bins as usize;
    let framed = |row: &[u64]| -> Vec<u64> { [&[0], row, &[0]].concat() };
    if info.axes.len() == 1 {
        let mut array = framed(counts);
        array[0] = totals.below;
        array[columns + 1] = totals.above;
        return array;
    }
    // What lies outside a plane is known, but not in which direction of the second axis.
    let empty = vec![0; columns + 2];
    let rows = counts.chunks(columns).map(framed);
    std::iter::once(empty.clone()).chain(rows).chain([empty]).flatten().collect()
}

fn root_axis(name: &str, axis: Option<&Axis>) -> Value {
    let (bins, low, high) = axis.map_or((1, 0.0, 1.0), |axis| (axis.bins, axis.low, axis.high));
    json!({
        "_typename": "TAxis", "fUniqueID": 0, "fBits": 0, "fName": name, "fTitle": axis.map_or_else(String::new, labelled),
        "fNdivisions": 510, "fAxisColor": 1, "fLabelColor": 1, "fLabelFont": 42, "fLabelOffset": 0.005, "fLabelSize": 0.035,
        "fTickLength": 0.03, "fTitleOffset": 1, "fTitleSize": 0.035, "fTitleColor": 1, "fTitleFont": 42,
        "fNbins": bins, "fXmin": low, "fXmax": high, "fXbins": [], "fFirst": 0, "fLast": 0, "fBits2": 0,
        "fTimeDisplay": false, "fTimeFormat": "", "fLabels": null, "fModLabs": null,
    })
}
