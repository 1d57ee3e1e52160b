//! Finds the edge of loss column by column: the most events at a separation that lose nothing.
//!
//! ```text
//!  next() ─► trial: separation, events ─► made by the caller ─► report(lossless | lossy | invalid)
//!
//!  events  1 ── ● ──── ● ── ●×  × ──────── ×     ● lossless: trusted     × lossy: retested at the bracket
//!                         bracket
//! ```
//! A stall of the device turns a lossless point lossy, and a plain bisection never comes back from that. So both ends
//! of a closed bracket are tested again, and one lossless trial outweighs two lossy ones at the same point. That the
//! other error does not occur is the work of the gate: a trial that was not emitted as asked is invalid.

use std::collections::BTreeMap;

/// A bracket is narrow enough at one event, or at this fraction of the lossless end.
const BRACKET_FRACTION: f64 = 0.004;

/// The range of a search, and its cost limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The columns: separations of events in seconds.
    pub separations_s: Vec<f64>,
    /// Events of the first trial of the first column.
    pub first_events: u64,
    /// The separation at which the output is saturated, in seconds.
    pub saturation_s: f64,
    /// The longest time in which the buffer drains, in seconds. A buffer cannot hold more than drains in it, so that a column in which
    /// nothing is lost ends with twice the events that fill such a buffer.
    pub longest_drain_s: f64,
    /// The most events of a trial, however deep the buffer may be.
    pub most_events: u64,
    /// Lossy trials, and none lossless, that the lossy end of a bracket needs.
    pub confirmations: u32,
    /// Valid trials of a column, after which it ends with what it has.
    pub most_trials: u32,
    /// Invalid trials of a column, after which it is refused.
    pub most_invalid: u32,
}

impl Settings {
    /// Returns settings for `columns` columns, spread evenly over 0.1 to 0.95 of the separation at which the output is saturated, in
    /// seconds, for a buffer of any depth.
    pub fn spread(columns: usize, saturation_s: f64) -> Settings {
        let steps = columns.saturating_sub(1).max(1) as f64;
        let fraction = |column: usize| 0.1 + 0.85 * column as f64 / steps;
        Settings {
            separations_s: (0..columns).map(|column| fraction(column) * saturation_s).collect(),
            saturation_s,
            longest_drain_s: f64::INFINITY,
            first_events: 8,
            most_events: 1 << 20,
            confirmations: 3,
            most_trials: 60,
            most_invalid: 10,
        }
    }

    /// The most events of a trial at a separation.
    fn most_events_at(&self, separation_s: f64) -> u64 {
        // What an event adds to the queue before the next one comes, as the time in which that drains.
        let added_s = self.saturation_s - separation_s;
        if !(added_s > 0.0 && self.longest_drain_s.is_finite()) {
            return self.most_events;
        }
        let filling = (2.0 * self.longest_drain_s / added_s).ceil() as u64;
        filling.clamp(1, self.most_events)
    }
}

/// A trial to make.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Index of the column.
    pub column: usize,
    /// Separation of events in seconds.
    pub separation_s: f64,
    /// Number of events.
    pub events: u64,
}

/// The outcome of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrialOutcome {
    /// Everything that was sent arrived.
    Lossless,
    /// Something was lost in the device.
    Lossy,
    /// The trial says nothing about the device, and why.
    Invalid(String),
}

/// The end of a column's search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The edge lies in the bracket.
    Bracketed,
    /// Nothing was lost up to the most events that are allowed.
    NeverLossy,
    /// A single event is lost.
    NeverLossless,
    /// The trials were used up before the bracket was closed and confirmed.
    OutOfTrials,
    /// Too many trials were invalid; the reason of the last of them.
    Refused(String),
}

/// The state of a column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    /// Separation of events in seconds.
    pub separation_s: f64,
    /// The most events without loss; 0 when there is none such.
    pub lossless_events: u64,
    /// The fewest events above it with loss.
    pub lossy_events: Option<u64>,
    /// Valid trials.
    pub trials: u32,
    /// Invalid trials.
    pub invalid: u32,
    /// The end of the search; `None` while it goes on.
    pub end: Option<End>,
    points: BTreeMap<u64, Point>,
}

/// Trials with one number of events.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Point {
    lossless: u32,
    lossy: u32,
}

impl Point {
    fn is_lossless(self) -> bool {
        self.lossless > 0 && self.lossy <= 2 * self.lossless
    }
}

/// The search of all columns, one after the other. Has no clock and sends nothing.
#[derive(Clone, Debug)]
pub struct Search {
    settings: Settings,
    columns: Vec<Column>,
    current: usize,
}

impl Search {
    /// A search that has seen no trial yet.
    pub fn new(mut settings: Settings) -> Search {
        settings.most_events = settings.most_events.max(1);
        let column = |separation_s: &f64| Column { separation_s: *separation_s, ..Column::default() };
        let columns = settings.separations_s.iter().map(column).collect();
        Search { settings, columns, current: 0 }
    }

    /// Returns the state of each column, in the order of the settings.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The trial to make; `None` at the end. Gives the same one until its outcome is reported.
    pub fn next(&self) -> Option<Request> {
        let column = self.columns.get(self.current)?;
        let events = self.wanted(column)?;
        Some(Request { column: self.current, separation_s: column.separation_s, events })
    }

    /// Takes the outcome of the trial that [`next`](Search::next) gives.
    pub fn report(&mut self, outcome: TrialOutcome) {
        let Some(request) = self.next() else { return };
        let column = &mut self.columns[request.column];
        let point = column.points.entry(request.events).or_default();
        match outcome {
            TrialOutcome::Lossless => point.lossless += 1,
            TrialOutcome::Lossy => point.lossy += 1,
            TrialOutcome::Invalid(reason) => {
                column.invalid += 1;
                if column.invalid > self.settings.most_invalid {
                    column.end = Some(End::Refused(reason));
                    self.current += 1;
                }
                return;
            }
        }
        column.trials += 1;
        column.find_bracket();
        if let Some(end) = self.end(&self.columns[request.column]) {
            self.columns[request.column].end = Some(end);
            self.current += 1;
        }
    }

    /// Returns how a column ends with what is known now, if it does.
    fn end(&self, column: &Column) -> Option<End> {
        if self.wanted(column).is_none() {
            return Some(match column.lossy_events {
                None => End::NeverLossy,
                Some(_) if column.lossless_events == 0 => End::NeverLossless,
                Some(_) => End::Bracketed,
            });
        }
        (column.trials >= self.settings.most_trials).then_some(End::OutOfTrials)
    }

    /// Events of a column's next trial; `None` when its bracket is closed and confirmed.
    fn wanted(&self, column: &Column) -> Option<u64> {
        let lower = column.lossless_events;
        let Some(upper) = column.lossy_events else {
            let most = self.settings.most_events_at(column.separation_s);
            return (lower < most).then_some(lower.saturating_mul(2).max(self.hint()).min(most));
        };
        let narrow = ((lower as f64 * BRACKET_FRACTION) as u64).max(1);
        if upper - lower > narrow {
            return Some(lower + (upper - lower) / 2);
        }
        let trials = |events| column.points.get(&events).copied().unwrap_or_default();
        if trials(upper).lossy < self.settings.confirmations {
            return Some(upper);
        }
        (lower > 0 && trials(lower).lossless < 2).then_some(lower)
    }

    /// Returns where a column begins: the edge of the one before it is a good guess.
    fn hint(&self) -> u64 {
        let finished = self.columns[..self.current].iter().rev();
        let known = finished.map(|column| column.lossless_events).find(|events| *events > 0);
        known.unwrap_or(self.settings.first_events).clamp(1, self.settings.most_events)
    }
}

impl Column {
    fn find_bracket(&mut self) {
        let lossless = self.points.iter().rev().find(|(_, point)| point.is_lossless());
        self.lossless_events = lossless.map_or(0, |(events, _)| *events);
        let above = self.points.range(self.lossless_events + 1..);
        self.lossy_events = above.filter(|(_, point)| point.lossy > 0).map(|(events, _)| *events).next();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    /// A search of columns with these edges; a lossless trial looks lossy with the probability `stalled`.
    fn search(edges: &[u64], stalled: f64, random: &mut Pcg64) -> Search {
        let mut search = Search::new(Settings::spread(edges.len(), 1e-3));
        while let Some(request) = search.next() {
            let is_lossy = request.events > edges[request.column] || random.random::<f64>() < stalled;
            search.report(if is_lossy { TrialOutcome::Lossy } else { TrialOutcome::Lossless });
        }
        search
    }

    fn bracket_holds(column: &Column, edge: u64) -> bool {
        let upper = column.lossy_events.expect("lossy somewhere");
        column.lossless_events <= edge
            && edge < upper
            && upper - column.lossless_events <= (edge / 250).max(1)
    }

    proptest! {
        #[test]
        fn without_noise_the_bracket_holds_the_edge(edge in 1..500_000_u64) {
            let column = search(&[edge], 0.0, &mut Pcg64::seed_from_u64(1)).columns[0].clone();
            prop_assert_eq!(&column.end, &Some(End::Bracketed));
            prop_assert!(bracket_holds(&column, edge), "{:?}", column);
        }
    }

    #[test]
    fn one_trial_in_ten_lossy_by_a_stall_moves_few_brackets() {
        let (mut random, mut held) = (Pcg64::seed_from_u64(7), 0);
        for edge in (40..4040).step_by(10) {
            held += usize::from(bracket_holds(&search(&[edge], 0.1, &mut random).columns[0], edge));
        }
        // A false edge needs three stalls at one of the points where a bracket closes, some of which lie below the edge.
        assert!(held >= 380, "{held} of 400");
    }

    #[test]
    fn plain_bisection_would_fail_at_that_noise() {
        let mut settings = Settings::spread(1, 1e-3);
        settings.confirmations = 1;
        let (mut random, mut held) = (Pcg64::seed_from_u64(7), 0);
        for edge in (40..4040).step_by(10) {
            let mut search = Search::new(settings.clone());
            while let Some(request) = search.next() {
                let is_lossy = request.events > edge || random.random::<f64>() < 0.1;
                search.report(if is_lossy { TrialOutcome::Lossy } else { TrialOutcome::Lossless });
            }
            held += usize::from(bracket_holds(&search.columns[0], edge));
        }
        assert!(held < 360, "{held} of 400");
    }

    #[test]
    fn a_column_with_too_many_invalid_trials_is_refused_and_the_next_goes_on() {
        let mut search = Search::new(Settings::spread(2, 1e-3));
        while let Some(request) = search.next() {
            search.report(match request.column {
                0 => TrialOutcome::Invalid("emitted late".to_owned()),
                _ if request.events > 100 => TrialOutcome::Lossy,
                _ => TrialOutcome::Lossless,
            });
        }
        assert_eq!(search.columns[0].end, Some(End::Refused("emitted late".to_owned())));
        assert_eq!((search.columns[0].trials, search.columns[0].invalid), (0, 11));
        assert_eq!(search.columns[1].end, Some(End::Bracketed));
    }

    #[test]
    fn columns_that_never_or_always_lose_say_so() {
        let search = search(&[u64::MAX, 0], 0.0, &mut Pcg64::seed_from_u64(1));
        let ends: Vec<_> = search.columns.iter().map(|column| column.end.clone()).collect();
        assert_eq!(ends, [Some(End::NeverLossy), Some(End::NeverLossless)]);
    }

    #[test]
    fn a_limit_of_events_ends_a_column_and_no_columns_end_at_once() {
        let settings = Settings { most_events: 0, ..Settings::spread(1, 1e-3) };
        let mut search = Search::new(settings);
        assert_eq!(search.next().map(|request| request.events), Some(1));
        search.report(TrialOutcome::Lossless);
        assert_eq!((search.next(), search.columns[0].end.clone()), (None, Some(End::NeverLossy)));
        assert_eq!(Search::new(Settings::spread(0, 1e-3)).next(), None);
    }

    #[test]
    fn a_column_without_a_loss_ends_with_what_fills_the_deepest_buffer_that_there_can_be() {
        // An event per millisecond saturates; 0.4 s drain, so that at 0.1 ms each event adds 0.9 ms of them.
        let settings = Settings { longest_drain_s: 0.4, ..Settings::spread(2, 1e-3) };
        let mut search = Search::new(settings);
        let mut most = [0, 0];
        while let Some(request) = search.next() {
            most[request.column] = request.events;
            search.report(TrialOutcome::Lossless);
        }
        assert_eq!(most, [889, 16_000]);
        assert!(search.columns.iter().all(|column| column.end == Some(End::NeverLossy)));
    }

    #[test]
    fn an_oracle_without_sense_ends_within_the_trials() {
        let mut random = Pcg64::seed_from_u64(3);
        for _ in 0..100 {
            let mut search = Search::new(Settings::spread(3, 1e-3));
            while search.next().is_some() {
                search.report(if random.random::<bool>() {
                    TrialOutcome::Lossy
                } else {
                    TrialOutcome::Lossless
                });
            }
            assert!(search.columns.iter().all(|column| column.trials <= 60 && column.end.is_some()));
        }
    }

    #[test]
    fn columns_spread_from_a_tenth_to_nearly_all_of_the_saturation_separation() {
        let separations_s = Settings::spread(10, 1e-3).separations_s;
        assert!((separations_s[0] - 1e-4).abs() < 1e-12 && (separations_s[9] - 9.5e-4).abs() < 1e-12);
        assert!(separations_s.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
