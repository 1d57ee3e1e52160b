//! The layout of the whole picture.
//!
//! ```text
//!  title · facts
//!  [ energy, channel by channel: small multiples    ]
//!  [ energy–PSD plane ] [ energy, summed per source ]
//!  [ rate                                           ]
//!  footer
//! ```

use super::colour;
use super::losses::Lanes;
use super::panel::{Frame, GREY, INK, PlaneView};
use super::scale::{Scale, grouped, round_step, short_number, three_digits};
use super::spectra::{Histogram, Spectra};
use super::svg::{Area, Svg, Type};

const WIDTH: f64 = 1240.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 36.0;
const INNER: f64 = WIDTH - LEFT - RIGHT;
/// Between one row of panels and the next: tick numbers of the one, name of the other.
const GAP: f64 = 44.0;
const HEADER: f64 = 122.0;
/// Most channels with a panel of their own.
pub(super) const PANELS_AT_MOST: usize = 16;

/// The facts of a run in addition to its hits.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The run's title.
    pub title: &'a str,
    /// Its directory or number.
    pub run: &'a str,
    /// The start of the run, as the reader wants to see it.
    pub started: &'a str,
    /// Hits in the recording.
    pub hits_recorded: u64,
    /// A description of the losses, with how well they are known.
    pub lost: &'a str,
    /// What there is to say of the ledger.
    pub ledger: &'a str,
    /// Name and version of what recorded it.
    pub software: &'a str,
    /// The sources in the order of the configuration.
    pub sources: &'a [PlotSource<'a>],
}

/// A source and its channels.
#[derive(Clone, Copy, Debug)]
pub struct PlotSource<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its first channel of the experiment.
    pub first_channel: u16,
    /// The number of its channels.
    pub channels: u16,
}

/// Draws the recorded spectra as one SVG document, the losses of the run beneath them.
pub fn spectra_svg(spectra: &Spectra, losses: &Lanes, facts: &Facts) -> String {
    let channels = chosen(spectra, facts);
    let (columns, panel_height) = match channels.len() {
        0..=1 => (1, 230.0),
        2..=3 => (channels.len(), 210.0),
        4 => (2, 170.0),
        5..=6 => (3, 150.0),
        _ => (4, 118.0),
    };
    let rows = channels.len().div_ceil(columns);
    let grid_height = rows as f64 * (panel_height + GAP) + 12.0;
    let lanes_y = HEADER + grid_height + 44.0 + 320.0 + 104.0 + 96.0 + 78.0;
    let height = lanes_y + 28.0 + losses.height();
    let mut svg = Svg::new(WIDTH, height);
    svg.rectangle(Area { x: 0.0, y: 0.0, width: WIDTH, height }, "#fdfdfc", "none");
    header(&mut svg, spectra, facts);
    grid(&mut svg, &channels, facts, columns, panel_height);
    let middle = HEADER + grid_height + 44.0;
    plane_and_sums(&mut svg, spectra, middle);
    rate(&mut svg, spectra, middle + 320.0 + 104.0);
    losses.draw(&mut svg, (LEFT, lanes_y - 12.0), INNER);
    footer(&mut svg, facts, height - 22.0);
    svg.finish(facts.title, &summary(spectra, facts))
}

/// One channel to be drawn.
struct Shown<'a> {
    channel: u16,
    source: usize,
    energies: &'a Histogram,
}

/// The channels that get a panel: all, or the first few of each source when there are too many.
fn chosen<'a>(spectra: &'a Spectra, facts: &Facts) -> Vec<Shown<'a>> {
    let all = spectra.channels();
    let each = PANELS_AT_MOST / facts.sources.len().clamp(1, PANELS_AT_MOST);
    let too_many = spectra.channels_seen() > PANELS_AT_MOST;
    let mut taken = vec![0; facts.sources.len() + 1];
    all.into_iter()
        .map(|(channel, energies)| Shown { channel, source: spectra.source_of(channel), energies })
        .filter(|shown| {
            let count = &mut taken[shown.source.min(facts.sources.len())];
            *count += 1;
            !too_many || *count <= each
        })
        .take(PANELS_AT_MOST)
        .collect()
}

fn source_name<'a>(facts: &Facts<'a>, source: usize) -> &'a str {
    facts.sources.get(source).map_or("", |source| source.name)
}

fn header(svg: &mut Svg, spectra: &Spectra, facts: &Facts) {
    svg.label(LEFT - 44.0, 48.0, Type::new(25.0, INK).strong(), facts.title);
    svg.label(LEFT - 44.0, 72.0, Type::new(13.0, GREY), &summary(spectra, facts));
    let mut x = WIDTH - RIGHT;
    for (index, source) in facts.sources.iter().enumerate().take(8).rev() {
        svg.rectangle(
            Area { x: x - 10.0, y: 38.5, width: 10.0, height: 10.0 },
            colour::of_source(index),
            "none",
        );
        svg.label(x - 16.0, 48.0, Type::new(12.5, INK).end(), source.name);
        x -= 8.0 * source.name.chars().count() as f64 + 38.0;
    }
}

fn summary(spectra: &Spectra, facts: &Facts) -> String {
    let duration = spectra.rate().duration_s();
    let mut parts = vec![
        format!("{} hits recorded", grouped(facts.hits_recorded)),
        facts.lost.to_owned(),
        format!("{} s", short_number(three_digits(duration))),
    ];
    if duration > 0.0 {
        parts.push(format!("{} hits/s", short_number(three_digits(spectra.hits() as f64 / duration))));
    }
    let (drawn, seen) = (chosen(spectra, facts).len(), spectra.channels_seen());
    if drawn < seen {
        parts.push(format!("{drawn} of {seen} channels have a panel"));
    }
    parts.push(facts.ledger.to_owned());
    parts.join("  ·  ")
}

/// Returns the end of an energy axis such that all but a `beyond`th of the hits are on it.
fn energy_end(counts: &[f64], beyond: f64) -> f64 {
    let wanted = counts.iter().sum::<f64>() * (1.0 - beyond);
    let mut seen = 0.0;
    let bins = counts.iter().take_while(|count| {
        let before = seen;
        seen += **count;
        before < wanted
    });
    let end = bins.count() as f64 * f64::from(Histogram::BIN_WIDTH) * 1.04;
    let step = round_step(end.max(10.0) / 12.0);
    ((end / step).ceil().max(1.0) * step).min(65_536.0)
}

/// The small panels leave the thin tail to the large one, which shows all of it.
const BEYOND_SMALL: f64 = 5e-3;
const BEYOND_LARGE: f64 = 1e-5;

/// Bins wide enough to be seen: at least three quarters of a pixel each.
fn visible_bin_width(end: f64, width: f64) -> u32 {
    let mut bin_width = Histogram::BIN_WIDTH;
    while end / f64::from(bin_width) > width / 0.75 {
        bin_width *= 2;
    }
    bin_width
}

/// The scales of the panels of the grid.
struct GridScales {
    /// The end of each panel's energy axis.
    ends: Vec<f64>,
    /// Bin width of each panel.
    bin_widths: Vec<u32>,
    /// True if all panels have the same energy axis.
    shared: bool,
}

impl GridScales {
    fn of(channels: &[Shown], width: f64) -> GridScales {
        let end_of =
            |shown: &Shown| energy_end(&shown.energies.in_bins_of(Histogram::BIN_WIDTH), BEYOND_SMALL);
        let mut ends: Vec<f64> = channels.iter().map(end_of).collect();
        let (least, most) =
            ends.iter().fold((f64::MAX, 1f64), |(low, high), end| (low.min(*end), high.max(*end)));
        let shared = most <= 2.0 * least;
        if shared {
            ends.fill(most);
        }
        let bin_widths = ends.iter().map(|end| visible_bin_width(*end, width)).collect();
        GridScales { ends, bin_widths, shared }
    }

    fn count_text(&self) -> String {
        match self.bin_widths.first() {
            Some(width) if self.shared => format!("hits per {width} ADC channels"),
            _ => "hits per bin".to_owned(),
        }
    }
}

fn grid(svg: &mut Svg, channels: &[Shown], facts: &Facts, columns: usize, panel_height: f64) {
    let between = if columns > 3 { 26.0 } else { 40.0 };
    let width = (INNER - between * (columns - 1) as f64) / columns as f64;
    let scales = GridScales::of(channels, width);
    let binned: Vec<Vec<f64>> = channels
        .iter()
        .zip(&scales.bin_widths)
        .map(|(shown, bin_width)| shown.energies.in_bins_of(*bin_width))
        .collect();
    let y = Scale::of_counts(binned.iter().flatten().copied().fold(0.0, f64::max));
    let rows = channels.len().div_ceil(columns);
    let row_step = panel_height + GAP;
    for (index, (shown, counts)) in channels.iter().zip(&binned).enumerate() {
        let (row, column) = (index / columns, index % columns);
        let area = Area {
            x: LEFT + column as f64 * (width + between),
            y: HEADER + row as f64 * row_step,
            width,
            height: panel_height,
        };
        let nothing_below = index + columns >= channels.len();
        let numbers = (!scales.shared || nothing_below, column == 0);
        let frame = Frame { area, x: Scale::linear(0.0, scales.ends[index]), y, numbers };
        frame.draw(svg);
        frame.steps(svg, counts, f64::from(scales.bin_widths[index]), colour::of_source(shown.source), true);
        panel_labels(svg, area, shown, facts);
    }
    let height = rows as f64 * row_step;
    let style = Type::new(11.5, GREY).middle();
    svg.label_turned(LEFT - 46.0, HEADER + (height - GAP) / 2.0, -90.0, style, &scales.count_text());
    svg.label(LEFT + INNER / 2.0, HEADER + height - GAP + 34.0, style, "energy (ADC channels)");
}

fn panel_labels(svg: &mut Svg, area: Area, shown: &Shown, facts: &Facts) {
    let name = format!("{} channel {}", source_name(facts, shown.source), shown.channel);
    svg.label(area.x, area.y - 7.0, Type::new(11.5, INK).strong(), name.trim_start());
    let counted = format!("{} hits", grouped(shown.energies.hits()));
    svg.label(area.right(), area.y - 7.0, Type::new(10.5, GREY).end(), &counted);
}

fn heading(svg: &mut Svg, area: Area, words: &str) {
    svg.label(area.x, area.y - 12.0, Type::new(13.0, INK).strong(), words);
}

fn plane_and_sums(svg: &mut Svg, spectra: &Spectra, y: f64) {
    let left = Area { x: LEFT, y, width: 520.0, height: 320.0 };
    let Some(view) = PlaneView::of(spectra.plane()) else {
        return sums(svg, spectra, Area { width: INNER, ..left });
    };
    heading(svg, left, "Pulse shape against energy, all channels");
    let frame = view.frame(left);
    frame.draw(svg);
    view.draw(svg, left);
    frame.name_axes(svg, "energy (ADC channels)", PSD_WORDS);
    let x = left.right() + 132.0;
    let right = Area { x, width: LEFT + INNER - x, ..left };
    if spectra.channels().len() > 1 {
        sums(svg, spectra, right);
    } else {
        // The sum would repeat the one panel above.
        pulse_shapes(svg, &view.projection(spectra.plane()), frame.y, right);
    }
}

const PSD_WORDS: &str = "PSD  = (energy − energy short) / energy";

fn pulse_shapes(svg: &mut Svg, hits: &[f64], x: Scale, area: Area) {
    heading(svg, area, "Pulse shape, all energies");
    let most = hits.iter().copied().fold(0.0, f64::max);
    let frame = Frame { area, x, y: Scale::linear(0.0, most * 1.1), numbers: (true, true) };
    frame.draw(svg);
    frame.name_axes(svg, PSD_WORDS, "hits per 1/256");
    frame.steps(svg, hits, 1.0 / 256.0, colour::of_source(0), true);
}

fn sums(svg: &mut Svg, spectra: &Spectra, area: Area) {
    heading(svg, area, "Energy, summed over the channels of each source");
    let summed: Vec<Vec<f64>> =
        spectra.sums().iter().map(|sum| sum.in_bins_of(Histogram::BIN_WIDTH)).collect();
    let total: Vec<f64> = (0..Histogram::BINS).map(|bin| summed.iter().map(|row| row[bin]).sum()).collect();
    let end = energy_end(&total, BEYOND_LARGE);
    let bin_width = visible_bin_width(end, area.width);
    let summed: Vec<Vec<f64>> = spectra.sums().iter().map(|sum| sum.in_bins_of(bin_width)).collect();
    let most = summed.iter().flatten().copied().fold(0.0, f64::max);
    let frame = Frame { area, x: Scale::linear(0.0, end), y: Scale::of_counts(most), numbers: (true, true) };
    frame.draw(svg);
    frame.name_axes(svg, "energy (ADC channels)", &format!("hits per {bin_width} ADC channels"));
    let present = |row: &[f64]| row.iter().any(|count| *count > 0.0);
    let filled = summed.iter().filter(|row| present(row)).count() == 1;
    for (source, row) in summed.iter().enumerate().filter(|(_, row)| present(row)) {
        frame.steps(svg, row, f64::from(bin_width), colour::of_source(source), filled);
    }
}

fn rate(svg: &mut Svg, spectra: &Spectra, y: f64) {
    let rate = spectra.rate();
    let area = Area { x: LEFT, y, width: INNER, height: 96.0 };
    heading(svg, area, "Rate, all channels");
    let group = rate.counts().len().div_ceil(240).max(1);
    let step = rate.bin_width_s() * group as f64;
    let per_second = |bins: &[u32]| bins.iter().map(|count| f64::from(*count)).sum::<f64>() / step;
    // The last stretch may have been cut short by the end of the run, and would look like a drop.
    let mut values: Vec<f64> = rate.counts().chunks(group).map(per_second).collect();
    if values.len() > 3 {
        values.pop();
    }
    let most = values.iter().copied().fold(0.0, f64::max);
    let frame = Frame {
        area,
        x: Scale::linear(0.0, values.len() as f64 * step),
        y: Scale::linear(0.0, most * 1.15),
        numbers: (true, true),
    };
    frame.draw(svg);
    frame.curve(svg, &values, step, colour::of_source(0));
    frame.name_axes(svg, "time since the first hit (s)", "hits/s");
}

fn footer(svg: &mut Svg, facts: &Facts, y: f64) {
    let style = Type::new(11.0, GREY);
    svg.label(LEFT - 44.0, y, style, &format!("{}  ·  started {}", facts.run, facts.started));
    svg.label(WIDTH - RIGHT, y, style.end(), facts.software);
}

#[cfg(test)]
mod tests {
    use thalweg_data::{Flags, Hit};

    use super::*;

    const SOURCES: [PlotSource<'static>; 2] = [
        PlotSource { name: "left", first_channel: 0, channels: 8 },
        PlotSource { name: "right", first_channel: 8, channels: 8 },
    ];

    fn facts() -> Facts<'static> {
        Facts {
            title: "a <run>",
            run: "runs/0001",
            started: "2026-01-01 12:00:00 UTC",
            hits_recorded: 5,
            lost: "hits lost: unknown, ≥ 130 frames (≥ 2.0 %)",
            ledger: "the ledger balances",
            software: "thalweg",
            sources: &SOURCES,
        }
    }

    fn spectra_of(sources: &[PlotSource<'_>], channels: u16, hits: u32) -> Spectra {
        let mut spectra = Spectra::of(sources);
        let hit = |number: u32| Hit {
            time_ps: i64::from(number) * 1_000_000,
            channel: (number % u32::from(channels.max(1))) as u16,
            energy: (number * 7919 % 3000) as u16,
            energy_short: (number * 7919 % 3000 / 2) as u16,
            flags: Flags::NONE,
        };
        spectra.fill(&(0..hits).map(hit).collect::<Vec<_>>());
        spectra
    }

    #[test]
    fn any_number_of_channels_and_hits_makes_a_picture_without_bad_numbers() {
        for channels in [1, 2, 3, 4, 5, 7, 16, 40, 300] {
            for hits in [0, 1, 5, 10_000] {
                let text = spectra_svg(&spectra_of(&SOURCES, channels, hits), &Lanes::default(), &facts());
                assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
                for word in ["NaN", "inf", "=\"-"] {
                    assert!(!text.contains(word), "{word} with {channels} channels and {hits} hits");
                }
            }
        }
    }

    #[test]
    fn too_many_channels_are_shown_evenly() {
        let sources = [
            PlotSource { name: "a", first_channel: 0, channels: 20 },
            PlotSource { name: "b", first_channel: 20, channels: 20 },
        ];
        let spectra = spectra_of(&sources, 40, 10_000);
        let facts = Facts { sources: &sources, ..facts() };
        let channels: Vec<u16> = chosen(&spectra, &facts).iter().map(|shown| shown.channel).collect();
        assert_eq!(channels, (0..8).chain(20..28).collect::<Vec<_>>());
        let text = |channels| spectra_svg(&spectra_of(&sources, channels, 10_000), &Lanes::default(), &facts);
        assert!(text(40).contains("16 of 40 channels have a panel"));
        assert!(!text(16).contains("have a panel"), "all have");
    }

    #[test]
    fn the_facts_are_in_the_picture() {
        let text = spectra_svg(&spectra_of(&SOURCES, 4, 1000), &Lanes::default(), &facts());
        for words in [
            "a &lt;run&gt;",
            "5 hits recorded  ·  hits lost: unknown, ≥ 130 frames (≥ 2.0 %)",
            "the ledger balances",
            "runs/0001",
            "left channel 3",
        ] {
            assert!(text.contains(words), "{words}");
        }
    }
}
