//! Histograms, filled hit by hit.
//!
//! ```text
//!  hit ─┬─ energy ─────────► Histogram of its source      16 384 bins over 16 bits
//!       │                └─► Histogram of its channel     of the lowest channels of each source
//!       ├─ energy, share ──► Plane                        2048 × 256 bins
//!       └─ time ───────────► Rate                         1 ms bins, folded in pairs when time goes on
//! ```
//! Energies are binned over all that 16 bits can say, finely enough that a picture may show any part of it. Time has no
//! such end: when the last bin is reached, pairs of bins become one.

use thalweg_data::{Flags, Hit};

use super::page::{PANELS_AT_MOST, PlotSource};

/// Channels that have a histogram of their own, but that each source has one: the lowest ones of each source. So it does not depend on the
/// order of the hits which ones are drawn.
const CHANNELS_AT_MOST: usize = 256;
/// Of a channel that has not been seen, and of one that has no histogram of its own.
const UNSEEN: u16 = u16::MAX;
const BEYOND: u16 = u16::MAX - 1;

/// Everything that the picture shows, filled hit by hit.
#[derive(Clone, Debug)]
pub struct Spectra {
    slot_of_channel: Vec<u16>,
    channels: Vec<(u16, Histogram)>,
    channels_seen: usize,
    /// By channel: where its source is in `sums`.
    source_of_channel: Vec<u16>,
    /// By source, and behind them of channels of none.
    sums: Vec<Histogram>,
    plane: Plane,
    rate: Rate,
    hits: u64,
}

impl Spectra {
    /// Of the hits of these sources. A channel belongs to the first one that has it.
    pub fn of(sources: &[PlotSource<'_>]) -> Spectra {
        let mut source_of_channel = vec![sources.len() as u16; 1 << 16];
        for (place, source) in sources.iter().enumerate().rev() {
            let first = usize::from(source.first_channel);
            let until = (first + usize::from(source.channels)).min(source_of_channel.len());
            source_of_channel[first..until].fill(place as u16);
        }
        Spectra {
            slot_of_channel: vec![UNSEEN; 1 << 16],
            channels: Vec::new(),
            channels_seen: 0,
            source_of_channel,
            sums: vec![Histogram::default(); sources.len() + 1],
            plane: Plane::default(),
            rate: Rate::default(),
            hits: 0,
        }
    }

    /// Counts a batch of hits. Markers that are no pulses count in the rate alone; hits without an energy in no spectrum.
    pub fn fill(&mut self, hits: &[Hit]) {
        self.hits += hits.len() as u64;
        for hit in hits {
            self.rate.add(hit.time_ps);
            if hit.flags.0 & (Flags::NO_ENERGY | Flags::FAKE).0 != 0 {
                continue;
            }
            self.sums[usize::from(self.source_of_channel[usize::from(hit.channel)])].add(hit.energy);
            if let Some(histogram) = self.histogram_of(hit.channel) {
                histogram.add(hit.energy);
            }
            if !hit.flags.has(Flags::NO_ENERGY_SHORT) {
                self.plane.add(hit.energy, hit.energy_short);
            }
        }
    }

    #[inline]
    fn histogram_of(&mut self, channel: u16) -> Option<&mut Histogram> {
        if self.slot_of_channel[usize::from(channel)] == UNSEEN {
            self.slot_of_channel[usize::from(channel)] = self.admit(channel);
            self.channels_seen += 1;
        }
        let slot = self.slot_of_channel[usize::from(channel)];
        self.channels.get_mut(usize::from(slot)).map(|(_, histogram)| histogram)
    }

    /// Finds a place for the histogram of a channel with its first hit: a free one, or that of a higher channel of its source.
    fn admit(&mut self, channel: u16) -> u16 {
        let source = self.source_of(channel);
        let most = (CHANNELS_AT_MOST / self.sums.len()).clamp(1, PANELS_AT_MOST);
        let of_source = |(_, (other, _)): &(usize, &(u16, Histogram))| self.source_of(*other) == source;
        let slots = self.channels.iter().enumerate().filter(of_source);
        let highest =
            slots.clone().max_by_key(|(_, (other, _))| *other).map(|(slot, (other, _))| (slot, *other));
        match highest.filter(|_| slots.count() >= most) {
            None => {
                self.channels.push((channel, Histogram::default()));
                self.channels.len() as u16 - 1
            }
            Some((slot, other)) if other > channel => {
                self.slot_of_channel[usize::from(other)] = BEYOND;
                self.channels[slot] = (channel, Histogram::default());
                slot as u16
            }
            Some(_) => BEYOND,
        }
    }

    /// The number of the source that a channel belongs to; one beyond the last when none has it.
    pub fn source_of(&self, channel: u16) -> usize {
        usize::from(self.source_of_channel[usize::from(channel)])
    }

    /// Energy spectra by source, all channels together; the last is of channels that belong to none.
    pub fn sums(&self) -> &[Histogram] {
        &self.sums
    }

    /// Channels of which there are energies.
    pub fn channels_seen(&self) -> usize {
        self.channels_seen
    }

    /// Energy spectra by channel number, of the lowest channels of each source.
    pub fn channels(&self) -> Vec<(u16, &Histogram)> {
        let mut sorted: Vec<_> =
            self.channels.iter().map(|(channel, histogram)| (*channel, histogram)).collect();
        sorted.sort_by_key(|(channel, _)| *channel);
        sorted
    }

    /// Energy against pulse shape, all channels together.
    pub fn plane(&self) -> &Plane {
        &self.plane
    }

    /// Hits in time, all channels together.
    pub fn rate(&self) -> &Rate {
        &self.rate
    }

    /// Hits given to [`Spectra::fill`].
    pub fn hits(&self) -> u64 {
        self.hits
    }
}

/// Adds neighbouring bins in pairs, into the first half.
fn fold(counts: &mut [u32]) {
    let half = counts.len() / 2;
    for bin in 0..half {
        counts[bin] = counts[2 * bin].saturating_add(counts[2 * bin + 1]);
    }
    counts[half..].fill(0);
}

/// Energies of one channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    counts: Vec<u32>,
    inside: u64,
    overflow: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: vec![0; Histogram::BINS], inside: 0, overflow: 0 }
    }
}

impl Histogram {
    /// Number of bins.
    pub const BINS: usize = 1 << 14;
    /// ADC channels per bin.
    pub const BIN_WIDTH: u32 = 4;

    /// Counts one energy. The largest value that 16 bits can say is an overflow and has no bin.
    #[inline]
    pub fn add(&mut self, energy: u16) {
        if energy == u16::MAX {
            self.overflow += 1;
            return;
        }
        let count = &mut self.counts[usize::from(energy) / Histogram::BIN_WIDTH as usize];
        *count = count.saturating_add(1);
        self.inside += 1;
    }

    /// Counts per bin, from energy 0.
    pub fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// Energies counted, overflows included.
    pub fn hits(&self) -> u64 {
        self.inside + self.overflow
    }

    /// Counts in bins of `bin_width` ADC channels, a multiple of [`Histogram::BIN_WIDTH`].
    pub fn in_bins_of(&self, bin_width: u32) -> Vec<f64> {
        let group = (bin_width / Histogram::BIN_WIDTH).max(1) as usize;
        self.counts.chunks(group).map(|bins| bins.iter().map(|count| f64::from(*count)).sum()).collect()
    }
}

/// Energy against the tail's share of the charge, `(energy − energy_short) / energy`.
#[derive(Clone, Debug, PartialEq)]
pub struct Plane {
    counts: Vec<u32>,
    inside: u64,
}

impl Default for Plane {
    fn default() -> Plane {
        Plane { counts: vec![0; Plane::ROWS * Plane::COLUMNS], inside: 0 }
    }
}

impl Plane {
    /// Bins along the share, from 0 to 1.
    pub const ROWS: usize = 256;
    /// Bins along the energy.
    pub const COLUMNS: usize = 2048;
    /// ADC channels per column.
    pub const COLUMN_WIDTH: u32 = 32;

    /// Counts one hit. One without charge, or whose short gate holds more than the long one, has no place here.
    #[inline]
    pub fn add(&mut self, energy: u16, energy_short: u16) {
        let Some(tail) = energy.checked_sub(energy_short) else { return };
        if energy == 0 || energy == u16::MAX {
            return;
        }
        let column = usize::from(energy) / Plane::COLUMN_WIDTH as usize;
        let row = (u32::from(tail) * Plane::ROWS as u32 / u32::from(energy)).min(255) as usize;
        let count = &mut self.counts[row * Plane::COLUMNS + column];
        *count = count.saturating_add(1);
        self.inside += 1;
    }

    /// Counts of one row, from energy 0; row r holds shares from r/256 to (r+1)/256.
    pub fn row(&self, row: usize) -> &[u32] {
        &self.counts[row * Plane::COLUMNS..][..Plane::COLUMNS]
    }

    /// Hits in the plane.
    pub fn inside(&self) -> u64 {
        self.inside
    }
}

/// Hits per stretch of time: at most 4096 stretches of 1 ms, 2 ms, 4 ms, …
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    counts: Vec<u32>,
    shift: u32,
    start_ps: Option<i64>,
    last_ps: i64,
    /// The bin used last and where it lies: neighbours in time share it, and need no division.
    bin: usize,
    bin_from_ps: i64,
}

impl Default for Rate {
    fn default() -> Rate {
        Rate {
            counts: vec![0; Rate::BINS],
            shift: 0,
            start_ps: None,
            last_ps: i64::MIN,
            bin: 0,
            bin_from_ps: 0,
        }
    }
}

impl Rate {
    const BINS: usize = 4096;
    const NARROWEST_PS: i64 = 1_000_000_000;
    /// 2^19 ms · 4096 bins are 24 days; later hits are counted in the last bin.
    const WIDEST_SHIFT: u32 = 19;

    /// Counts one hit. The first one sets where time begins; hits before it count in the first bin.
    #[inline]
    pub fn add(&mut self, time_ps: i64) {
        let into = time_ps.wrapping_sub(self.bin_from_ps);
        if self.start_ps.is_none() || !(0..self.bin_width_ps()).contains(&into) {
            self.find_bin(time_ps);
        }
        self.counts[self.bin] = self.counts[self.bin].saturating_add(1);
        self.last_ps = self.last_ps.max(time_ps);
    }

    fn find_bin(&mut self, time_ps: i64) {
        let start = *self.start_ps.get_or_insert(time_ps);
        let since = time_ps.saturating_sub(start).max(0);
        while since / self.bin_width_ps() >= Rate::BINS as i64 && self.shift < Rate::WIDEST_SHIFT {
            fold(&mut self.counts);
            self.shift += 1;
        }
        self.bin = ((since / self.bin_width_ps()) as usize).min(Rate::BINS - 1);
        self.bin_from_ps = start.saturating_add(self.bin as i64 * self.bin_width_ps());
    }

    fn bin_width_ps(&self) -> i64 {
        Rate::NARROWEST_PS << self.shift
    }

    /// Seconds per bin.
    pub fn bin_width_s(&self) -> f64 {
        self.bin_width_ps() as f64 * 1e-12
    }

    /// Seconds from the first hit to the last.
    pub fn duration_s(&self) -> f64 {
        self.start_ps.map_or(0.0, |start| self.last_ps.saturating_sub(start) as f64 * 1e-12)
    }

    /// Counts per bin, up to the bin of the last hit.
    pub fn counts(&self) -> &[u32] {
        let used = (self.duration_s() / self.bin_width_s()) as usize + 1;
        &self.counts[..used.min(Rate::BINS)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(time_ps: i64, channel: u16, energy: u16, energy_short: u16, flags: Flags) -> Hit {
        Hit { time_ps, channel, energy, energy_short, flags }
    }

    #[test]
    fn every_energy_has_a_bin_and_bins_join() {
        let mut histogram = Histogram::default();
        (0..=u16::MAX).for_each(|energy| histogram.add(energy));
        assert_eq!((histogram.hits(), histogram.counts()[0]), (65_536, 4));
        let joined = histogram.in_bins_of(64);
        assert_eq!((joined.len(), joined[0], joined[1023]), (1024, 64.0, 63.0));
    }

    #[test]
    fn the_plane_holds_the_share_of_the_tail() {
        let mut plane = Plane::default();
        plane.add(1000, 750);
        assert_eq!(plane.row(64)[1000 / 32], 1);
        plane.add(1000, 1001);
        plane.add(0, 0);
        plane.add(500, 0);
        assert_eq!(plane.row(255)[500 / 32], 1);
        assert_eq!(plane.inside(), 2);
    }

    #[test]
    fn rate_counts_every_hit_over_any_span() {
        let mut rate = Rate::default();
        for time_s in [0i64, 1, 5, 4000, 80_000_000] {
            rate.add(time_s * 1_000_000_000);
        }
        rate.add(i64::MAX);
        rate.add(i64::MIN);
        assert_eq!(rate.counts().iter().sum::<u32>(), 7);
    }

    #[test]
    fn absent_fields_and_markers_stay_out_of_the_spectra() {
        let mut spectra = Spectra::of(&[]);
        spectra.fill(&[
            hit(0, 3, 100, 0, Flags::NO_ENERGY_SHORT),
            hit(1, 3, 0, 0, Flags::NO_ENERGY),
            hit(2, 3, 9, 9, Flags::FAKE),
            hit(3, 1, 100, 50, Flags::NONE),
        ]);
        assert_eq!(spectra.hits(), 4);
        let channels: Vec<_> =
            spectra.channels().iter().map(|(number, histogram)| (*number, histogram.hits())).collect();
        assert_eq!(channels, [(1, 1), (3, 1)]);
        assert_eq!(spectra.plane().inside(), 1);
        assert_eq!(spectra.rate().counts().iter().sum::<u32>(), 4);
    }

    #[test]
    fn every_channel_is_in_the_sum_of_its_source_and_the_lowest_have_their_own() {
        let source = |first_channel, channels| PlotSource { name: "", first_channel, channels };
        let sources = [source(0, 200), source(100, 200)];
        let hits: Vec<_> = (0..310).map(|channel| hit(0, channel, 400, 5, Flags::NONE)).collect();
        let twice: Vec<_> = hits.iter().rev().chain(&hits).copied().collect();
        for hits in [twice, [&hits[..], &hits[..]].concat()] {
            let mut spectra = Spectra::of(&sources);
            spectra.fill(&hits);
            let sums: Vec<u64> = spectra.sums().iter().map(Histogram::hits).collect();
            assert_eq!((sums, spectra.channels_seen()), (vec![400, 200, 20], 310));
            let own: Vec<u16> = spectra.channels().iter().map(|(channel, _)| *channel).collect();
            assert_eq!(own, (0..16).chain(200..216).chain(300..310).collect::<Vec<_>>());
            assert!(spectra.channels().iter().all(|(_, histogram)| histogram.hits() == 2));
        }
    }
}
