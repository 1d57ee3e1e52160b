//! Histograms that find their own range while they are filled.
//!
//! ```text
//!  value ─► bin = value >> shift ─┬─ inside: count
//!                                 └─ beyond: too many of them? fold: pairs of bins become one, shift + 1
//! ```
//! A histogram begins with narrow bins and halves its resolution when more than a few hits lie beyond its end. So a
//! spectrum of 4000 channels and one of 60 000 both fill their panel, without a first pass over the data.

use thalweg_data::{Flags, Hit};

/// Channels that get a histogram of their own, the first ones seen; the hits of others are counted in
/// [`Spectra::without_histogram`].
const CHANNELS_AT_MOST: usize = 256;
const NO_SLOT: u16 = u16::MAX;

/// Everything that the picture shows, filled hit by hit.
#[derive(Clone, Debug)]
pub struct Spectra {
    slot_of_channel: Vec<u16>,
    channels: Vec<(u16, Histogram)>,
    plane: Plane,
    rate: Rate,
    hits: u64,
    without_histogram: u64,
}

impl Default for Spectra {
    fn default() -> Spectra {
        Spectra {
            slot_of_channel: vec![NO_SLOT; 1 << 16],
            channels: Vec::new(),
            plane: Plane::default(),
            rate: Rate::default(),
            hits: 0,
            without_histogram: 0,
        }
    }
}

impl Spectra {
    /// Counts a batch of hits. Markers that are no pulses count in the rate alone; hits without an energy in no spectrum.
    pub fn fill(&mut self, hits: &[Hit]) {
        self.hits += hits.len() as u64;
        for hit in hits {
            self.rate.add(hit.time_ps);
            if hit.flags.0 & (Flags::NO_ENERGY | Flags::FAKE).0 != 0 {
                continue;
            }
            match self.histogram_of(hit.channel) {
                Some(histogram) => histogram.add(hit.energy),
                None => self.without_histogram += 1,
            }
            if !hit.flags.has(Flags::NO_ENERGY_SHORT) {
                self.plane.add(hit.energy, hit.energy_short);
            }
        }
    }

    #[inline]
    fn histogram_of(&mut self, channel: u16) -> Option<&mut Histogram> {
        let slot = &mut self.slot_of_channel[usize::from(channel)];
        if *slot == NO_SLOT && self.channels.len() < CHANNELS_AT_MOST {
            *slot = self.channels.len() as u16;
            self.channels.push((channel, Histogram::default()));
        }
        self.channels.get_mut(usize::from(*slot)).map(|(_, histogram)| histogram)
    }

    /// Energy spectra by channel number.
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

    /// Hits with an energy whose channel came too late to get a histogram of its own.
    pub fn without_histogram(&self) -> u64 {
        self.without_histogram
    }
}

/// When the values beyond the end justify bins of twice the width.
#[inline]
fn worth_folding(beyond: u64, inside: u64) -> bool {
    beyond >= 16 && beyond * 200 > inside
}

/// Adds neighbouring bins in pairs, into the first half.
fn fold(counts: &mut [u32]) {
    let half = counts.len() / 2;
    for bin in 0..half {
        counts[bin] = counts[2 * bin].saturating_add(counts[2 * bin + 1]);
    }
    counts[half..].fill(0);
}

/// Energies of one channel: 4096 bins, each 1 to 16 ADC channels wide.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    counts: Vec<u32>,
    shift: u32,
    inside: u64,
    beyond: u64,
    overflow: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: vec![0; Histogram::BINS], shift: 0, inside: 0, beyond: 0, overflow: 0 }
    }
}

impl Histogram {
    /// Number of bins.
    pub const BINS: usize = 4096;
    const WIDEST_SHIFT: u32 = 4;

    /// Counts one energy. The largest value that 16 bits can say is an overflow and has no bin.
    #[inline]
    pub fn add(&mut self, energy: u16) {
        if energy == u16::MAX {
            self.overflow += 1;
            return;
        }
        match self.counts.get_mut(usize::from(energy >> self.shift)) {
            Some(count) => {
                *count = count.saturating_add(1);
                self.inside += 1;
            }
            None => self.add_beyond(energy),
        }
    }

    #[cold]
    fn add_beyond(&mut self, energy: u16) {
        if self.shift < Histogram::WIDEST_SHIFT && worth_folding(self.beyond + 1, self.inside) {
            fold(&mut self.counts);
            self.shift += 1;
            self.overflow += self.beyond;
            self.beyond = 0;
            self.add(energy);
        } else {
            self.beyond += 1;
        }
    }

    /// Counts per bin, from energy 0.
    pub fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// Width of a bin in ADC channels.
    pub fn bin_width(&self) -> u32 {
        1 << self.shift
    }

    /// Energies that are in a bin.
    pub fn inside(&self) -> u64 {
        self.inside
    }

    /// Energies that are in no bin: beyond the end, or overflowed.
    pub fn outside(&self) -> u64 {
        self.beyond + self.overflow
    }

    /// Counts in bins of `bin_width` ADC channels, which is a multiple of this histogram's own.
    pub fn in_bins_of(&self, bin_width: u32) -> Vec<u64> {
        let group = (bin_width / self.bin_width()).max(1) as usize;
        self.counts.chunks(group).map(|bins| bins.iter().map(|count| u64::from(*count)).sum()).collect()
    }
}

/// Energy against the tail's share of the charge, `(energy − energy_short) / energy`: 256 × 256 bins.
#[derive(Clone, Debug, PartialEq)]
pub struct Plane {
    counts: Vec<u32>,
    shift: u32,
    inside: u64,
    beyond: u64,
}

impl Default for Plane {
    fn default() -> Plane {
        Plane { counts: vec![0; Plane::BINS * Plane::BINS], shift: 4, inside: 0, beyond: 0 }
    }
}

impl Plane {
    /// Bins along each axis.
    pub const BINS: usize = 256;
    const WIDEST_SHIFT: u32 = 8;

    /// Counts one hit. One without charge, or whose short gate holds more than the long one, has no place here.
    #[inline]
    pub fn add(&mut self, energy: u16, energy_short: u16) {
        let Some(tail) = energy.checked_sub(energy_short) else { return };
        if energy == 0 || energy == u16::MAX {
            return;
        }
        let column = usize::from(energy >> self.shift);
        if column >= Plane::BINS {
            return self.add_beyond(energy, energy_short);
        }
        let row = (u32::from(tail) * 256 / u32::from(energy)).min(255) as usize;
        let count = &mut self.counts[row * Plane::BINS + column];
        *count = count.saturating_add(1);
        self.inside += 1;
    }

    #[cold]
    fn add_beyond(&mut self, energy: u16, energy_short: u16) {
        if self.shift < Plane::WIDEST_SHIFT && worth_folding(self.beyond + 1, self.inside) {
            self.counts.chunks_exact_mut(Plane::BINS).for_each(fold);
            self.shift += 1;
            self.beyond = 0;
            self.add(energy, energy_short);
        } else {
            self.beyond += 1;
        }
    }

    /// Counts of one row, from energy 0; row r holds shares from r/256 to (r+1)/256.
    pub fn row(&self, row: usize) -> &[u32] {
        &self.counts[row * Plane::BINS..][..Plane::BINS]
    }

    /// Width of a column in ADC channels.
    pub fn bin_width(&self) -> u32 {
        1 << self.shift
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
    fn a_narrow_spectrum_keeps_narrow_bins_in_spite_of_a_few_outliers() {
        let mut histogram = Histogram::default();
        (0..100_000u32).for_each(|number| histogram.add((number % 3000) as u16));
        (0..100).for_each(|_| histogram.add(50_000));
        assert_eq!((histogram.bin_width(), histogram.inside(), histogram.outside()), (1, 100_000, 100));
    }

    #[test]
    fn a_wide_spectrum_widens_its_bins_and_keeps_its_counts() {
        let mut histogram = Histogram::default();
        (0..60_000u16).for_each(|energy| histogram.add(energy));
        assert_eq!(histogram.bin_width(), 16);
        let counted: u64 = histogram.counts().iter().map(|count| u64::from(*count)).sum();
        assert_eq!(counted, histogram.inside());
        assert_eq!(histogram.inside() + histogram.outside(), 60_000);
        assert!(histogram.outside() < 400, "{}", histogram.outside());
    }

    #[test]
    fn the_plane_holds_the_share_of_the_tail() {
        let mut plane = Plane::default();
        plane.add(1000, 750);
        assert_eq!(plane.row(64)[1000 / 16], 1);
        plane.add(1000, 1001);
        plane.add(0, 0);
        plane.add(500, 0);
        assert_eq!(plane.row(255)[500 / 16], 1);
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
        let mut spectra = Spectra::default();
        spectra.fill(&[
            hit(0, 3, 100, 0, Flags::NO_ENERGY_SHORT),
            hit(1, 3, 0, 0, Flags::NO_ENERGY),
            hit(2, 3, 9, 9, Flags::FAKE),
            hit(3, 1, 100, 50, Flags::NONE),
        ]);
        assert_eq!(spectra.hits(), 4);
        let channels: Vec<_> =
            spectra.channels().iter().map(|(number, histogram)| (*number, histogram.inside())).collect();
        assert_eq!(channels, [(1, 1), (3, 1)]);
        assert_eq!(spectra.plane().inside(), 1);
        assert_eq!(spectra.rate().counts().iter().sum::<u32>(), 4);
    }

    #[test]
    fn channels_beyond_the_bound_are_counted() {
        let mut spectra = Spectra::default();
        let hits: Vec<_> = (0..300).map(|channel| hit(0, channel, 5, 5, Flags::NONE)).collect();
        spectra.fill(&hits);
        assert_eq!((spectra.channels().len(), spectra.without_histogram()), (256, 44));
    }
}
