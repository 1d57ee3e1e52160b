//! `prescale`: of each channel one hit in so many, where a board's rate is more than anybody needs.
//!
//! ```text
//!  [[stage]]
//!  kind        = "prescale"
//!  keep_one_in = 100
//!  channels    = [0, 1]        # without it: all
//! ```

use serde::Deserialize;
use thalweg_data::Hits;

use super::{HitStage, HitStageKind, HitStageRole, HitVerdict, Keys};

/// The kind.
pub(super) const KIND: HitStageKind = HitStageKind {
    word: "prescale",
    about: "keeps one hit in so many of a channel",
    role: HitStageRole::Filter,
    reasons: &[],
    make: |keys| Ok(Box::new(Prescale::new(keys)?)),
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    keep_one_in: u32,
    channels: Option<Vec<u16>>,
}

#[derive(Debug)]
struct Prescale {
    keep_one_in: u32,
    /// By channel, hits until the next one is kept; `u32::MAX` of a channel that is left alone.
    until_next: Box<[u32]>,
}

const LEFT_ALONE: u32 = u32::MAX;

impl Prescale {
    fn new(keys: &Keys) -> Result<Prescale, String> {
        let settings = Settings::deserialize(serde_json::Value::Object(keys.clone()));
        let Settings { keep_one_in, channels } = settings.map_err(|error| error.to_string())?;
        if !(1..LEFT_ALONE).contains(&keep_one_in) {
            return Err(format!("`keep_one_in = {keep_one_in}` keeps nothing; write 1 or more"));
        }
        let unnamed = if channels.is_some() { LEFT_ALONE } else { 0 };
        let mut until_next = vec![unnamed; 1 << 16].into_boxed_slice();
        for channel in channels.into_iter().flatten() {
            until_next[usize::from(channel)] = 0;
        }
        Ok(Prescale { keep_one_in, until_next })
    }
}

impl HitStage for Prescale {
    fn take(&mut self, batch: &Hits, verdicts: &mut [HitVerdict]) -> Result<(), String> {
        for (hit, verdict) in batch.hits.iter().zip(verdicts) {
            match &mut self.until_next[usize::from(hit.channel)] {
                &mut LEFT_ALONE => {}
                next @ 0 => *next = self.keep_one_in - 1,
                next => {
                    *next -= 1;
                    *verdict = HitVerdict::LeaveOut;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use thalweg_data::Hit;

    use super::*;

    #[test]
    fn one_in_three_of_a_channel_is_kept_and_others_are_left_alone() {
        let keys = serde_json::json!({ "keep_one_in": 3, "channels": [4] });
        let mut stage = Prescale::new(keys.as_object().expect("keys")).expect("they can be meant");
        let channels = [4, 4, 5, 4, 4, 5, 4, 4];
        let hits = channels.map(|channel| Hit { channel, ..Hit::default() });
        let batch = Hits { hits: hits.to_vec(), ..Hits::default() };
        let mut verdicts = [HitVerdict::Keep; 8];
        stage.take(&batch, &mut verdicts).expect("it cannot fail");
        let kept = verdicts.map(|verdict| verdict == HitVerdict::Keep);
        assert_eq!(kept, [true, false, true, false, true, true, false, false]);
    }
}
