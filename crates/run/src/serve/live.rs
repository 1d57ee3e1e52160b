//! The live state as it is served: the run's own, with what is sampled only on request.
//!
//! ```text
//!  LiveState ─┬─ its ledger: in sums by stage ─► flow
//!  Observed ──┴─ hits, dead time, rates ─► channels of each source
//! ```

use thalweg_monitor::state::{ChannelState, LiveState, LostIn};

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
    for source in &mut served.sources {
        let number = settings.hit_sources().position(|(settings, _)| settings.head.name == source.name);
        if let (Some(observed), Some(number)) = (observed, number) {
            source.channels = channels(observed, number, &state.rate_window.channels_hz);
        }
    }
    served
}

/// The channels of a source of hits; `number` is its place among these, `rates_hz` go by row of the channel map.
fn channels(observed: &Observed, number: usize, rates_hz: &[f64]) -> Vec<ChannelState> {
    let rows = observed.channels.channels().iter().enumerate();
    let own = rows.filter(|(_, channel)| channel.source.index() == number);
    own.map(|(row, channel)| {
        let group = &observed.channels.groups()[usize::from(channel.group)];
        let counts = observed.spectra.history().channel(row);
        let reports_dead_time = counts.real_time_ps > 0;
        ChannelState {
            channel: channel.number,
            name: channel.name.clone(),
            group: (channel.group > 0).then(|| group.clone()),
            enabled: channel.enabled,
            rate_hz: rates_hz.get(row).copied().unwrap_or(0.0),
            hits: counts.hits,
            dead_share: reports_dead_time.then(|| counts.dead_time_ps as f64 / counts.real_time_ps as f64),
        }
    })
    .collect()
}
