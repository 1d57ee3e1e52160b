//! The path from the boards to the disk: each stage with what goes in and comes out, and every loss where it happened.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use thalweg_data::ledger::{Loss, Quality};
use thalweg_data::topology::FlowPath;
use thalweg_data::{Stage, Unit};

/// A stop of the path in the topology of a run, and which lines of the ledger by `[[source]]` are counted there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowPlace {
    /// Which way its data go.
    pub path: FlowPath,
    /// The stage.
    pub stage: Stage,
    /// Whose counters, and in which units.
    pub counted: BTreeSet<(String, Unit)>,
    /// Of these units, those that come into being here.
    pub made: BTreeSet<Unit>,
}

/// A stage of one path, in one unit.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FlowStage {
    /// Which way its data go.
    pub path: FlowPath,
    /// The stage.
    pub stage: Stage,
    /// It stands beside the path: as what was refused there.
    pub stands_apart: bool,
    /// What stands over it: what it has done to what comes out of it.
    pub heading: String,
    /// What is left out here on request is called this.
    pub filtered_as: String,
    /// What is counted here.
    pub unit: Unit,
    /// Came in since the start.
    #[serde(rename = "in")]
    pub input: u64,
    /// Passed on since the start.
    #[serde(rename = "out")]
    pub output: u64,
    /// Left out on request since the start.
    pub filtered: u64,
    /// In the stage's containers now.
    pub held: u64,
    /// Lost since the start, in `unit`; what is lost in other units is in `lost_in`.
    pub lost: u64,
    /// Came in, per second.
    pub in_rate_hz: Option<f64>,
    /// Passed on, per second. Of the recorder, what it has taken and not lost: what is on file grows by whole batches.
    pub out_rate_hz: Option<f64>,
    /// Left out on request, per second.
    pub filtered_rate_hz: Option<f64>,
    /// Everything lost here, each source in the finest unit in which it is counted. Triggers that were refused are dead time, and no loss.
    pub lost_in: Vec<LostIn>,
    /// The same by source and reason, in all units.
    pub losses: Vec<Loss>,
    /// How full the ring behind the stage is, 0 to 1; null where there is none.
    pub ring_fill: Option<f64>,
}

/// What a stage, or all of a path, lost in one unit.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LostIn {
    /// What is counted.
    pub unit: Unit,
    /// How many.
    pub count: u64,
    /// The least certain of its losses.
    pub quality: Quality,
    /// Of what came in since the start, 0 to 1; at least as much where their number is one at least. Null where that is not known, where the
    /// unit comes into being, and of several stages, into which different numbers came.
    pub share: Option<f64>,
    /// Of what came in within the window of the rates, 0 to 1.
    pub share_now: Option<f64>,
}

impl LostIn {
    /// Losses added up by unit. A share of several is not known: they are of different inputs.
    pub fn by_unit(losses: impl Iterator<Item = LostIn>) -> Vec<LostIn> {
        let mut sums: Vec<LostIn> = Vec::new();
        for lost in losses {
            match sums.iter_mut().find(|sum| sum.unit == lost.unit) {
                Some(sum) => {
                    sum.count += lost.count;
                    sum.quality = sum.quality.worse(lost.quality);
                    (sum.share, sum.share_now) = (None, None);
                }
                None => sums.push(lost),
            }
        }
        sums
    }

    /// What all stages of a path lost, by unit, the most first.
    pub fn on_path(path: &[FlowStage]) -> Vec<LostIn> {
        let mut sums = LostIn::by_unit(path.iter().flat_map(|stage| &stage.lost_in).cloned());
        sums.sort_by_key(|lost| std::cmp::Reverse(lost.count));
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(lost_in: &[(Unit, u64, Quality)]) -> FlowStage {
        let lost = |(unit, count, quality): &(Unit, u64, Quality)| LostIn {
            unit: *unit,
            count: *count,
            quality: *quality,
            share: Some(0.1),
            share_now: Some(0.1),
        };
        FlowStage {
            path: FlowPath::Hits,
            stage: Stage::Wire,
            stands_apart: false,
            heading: String::new(),
            filtered_as: String::new(),
            unit: Unit::Hits,
            input: 0,
            output: 0,
            filtered: 0,
            held: 0,
            lost: 0,
            in_rate_hz: None,
            out_rate_hz: None,
            filtered_rate_hz: None,
            lost_in: lost_in.iter().map(lost).collect(),
            losses: Vec::new(),
            ring_fill: None,
        }
    }

    #[test]
    fn what_was_lost_on_the_path_stands_in_its_units_and_is_never_added_over_units() {
        let path = [
            stage(&[(Unit::Hits, 5, Quality::Exact)]),
            stage(&[(Unit::Frames, 70, Quality::Exact)]),
            stage(&[(Unit::Frames, 8, Quality::AtLeast)]),
        ];
        let sums = LostIn::on_path(&path);
        let found: Vec<_> = sums.iter().map(|sum| (sum.unit, sum.count, sum.quality, sum.share)).collect();
        let of_one_stage = (Unit::Hits, 5, Quality::Exact, Some(0.1));
        assert_eq!(found, [(Unit::Frames, 78, Quality::AtLeast, None), of_one_stage]);
        assert!(LostIn::on_path(&[stage(&[])]).is_empty());
    }
}
