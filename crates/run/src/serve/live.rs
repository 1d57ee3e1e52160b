//! The live state as it is served: the run's own, with what is sampled only on request.
//!
//! ```text
//!  LiveState ─┬─ its ledger: in sums by stage ─► flow
//!  Observed ──┴─ hits, live time, rates ─► channels of each source
//! ```

use thalweg_analysis::normalise::Normalised;
use thalweg_monitor::state::{ChannelState, LiveState, LostIn, RateWindow};

use super::flow;
use crate::config::Configuration;
use crate::observed::Observed;

/// The state with its flow and its channels, for the page, alarms and metrics.
pub(super) fn served(state: &LiveState, observed: Option<&Observed>, settings: &Configuration) -> LiveState {
    let flow = flow::lines(state);
    let mut served = LiveState { lost_in: LostIn::on_path(&flow), flow, ..state.clone() };
    // The ledger by source and stage: the page draws the sums, and `/metrics` has all of it.
    served.ledger = None;
    served.run.comment.clone_from(&settings.run.comment);
    let normalised = observed.map(|observed| observed.spectra.history().normalised()).unwrap_or_default();
    for source in &mut served.sources {
        let number = settings.hit_sources().position(|(settings, _)| settings.head.name == source.name);
        if let (Some(observed), Some(number)) = (observed, number) {
            source.channels = channels(observed, number, (&normalised, &state.rate_window));
        }
    }
    served
}

/// The channels of a source of hits; `number` is its place among these, what is known of each and its rate go by row of the channel map.
fn channels(
    observed: &Observed,
    number: usize,
    (normalised, window): (&[Normalised], &RateWindow),
) -> Vec<ChannelState> {
    let rows = observed.channels.channels().iter().zip(normalised).enumerate();
    let own = rows.filter(|(_, (channel, _))| channel.source.index() == number);
    own.map(|(row, (channel, known))| {
        let group = &observed.channels.groups()[usize::from(channel.group)];
        let (hits, rate) = (known.corrected(known.hits()), known.rate_hz());
        ChannelState {
            channel: channel.number,
            name: channel.name.clone(),
            group: (channel.group > 0).then(|| group.clone()),
            enabled: channel.enabled,
            rate_hz: window.channel_hz(row),
            hits: known.hits(),
            live_time_s: known.live_time_s,
            live_time_quality: known.live_time_quality,
            dead_time_fraction: known.dead_time_fraction(),
            corrected_hits: hits.value,
            corrected_quality: hits.quality,
            corrected_rate_hz: rate.value,
            corrected_rate_uncertainty_hz: rate.uncertainty,
        }
    })
    .collect()
}
