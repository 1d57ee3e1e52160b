//! Disks: the rate over time, and by position, of each directory that was measured.
//!
//! ```text
//!  rate │ ──╲__ write   │ ─── read   │ ─── write while reading      each: buffered, direct; ┄ what is needed
//!       └── time        └── time     └── time
//!  rate │ ▂▂ ▂▂ ▁▁ …  each file from its first to its last byte on the device: written, read
//!       └── position
//! ```

use std::fmt::Write;

use thalweg_qualify::storage::{Access, DirectoryReport, Position, Rate, StorageReport, Work, bytes_text};

use super::colour;
use super::panel::{Frame, GREY, INK};
use super::scale::Scale;
use super::svg::{Area, Svg, Type};

const WIDTH: f64 = 1240.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 30.0;
const HEADER: f64 = 74.0;
/// Height of the words above the panels of a directory.
const WORDS: f64 = 70.0;
const PANEL: f64 = 190.0;
/// The distance between two panels next to each other.
const BETWEEN: f64 = 70.0;
/// Below a row of panels: ticks and the name of the axis.
const BELOW: f64 = 58.0;
/// The most characters of a line across the page.
const MOST_CHARACTERS: usize = 170;
const NEEDED: &str = "#b3261e";
const MB: f64 = 1e6;

/// Draws all directories below each other.
pub fn storage_svg(report: &StorageReport) -> String {
    let height = HEADER + report.directories.iter().map(height_of).sum::<f64>() + 14.0;
    let mut svg = Svg::new(WIDTH, height);
    svg.rectangle(Area { x: 0.0, y: 0.0, width: WIDTH, height }, "#ffffff", "none");
    let title = "What a disk sustains";
    svg.label(28.0, 34.0, Type::new(18.0, INK).strong(), title);
    let memory = report.memory_bytes.map_or("unknown".to_owned(), |bytes| bytes_text(bytes as f64));
    let said = format!(
        "files of {} in calls of {}; memory of the host {memory}",
        bytes_text(report.file_bytes as f64),
        bytes_text(report.chunk_bytes as f64)
    );
    svg.label(28.0, 54.0, Type::new(11.5, GREY), &said);
    let mut y = HEADER;
    for directory in &report.directories {
        draw_directory(&mut svg, directory, y, report.needs_bytes_per_s);
        y += height_of(directory);
    }
    svg.finish(title, &said)
}

fn height_of(directory: &DirectoryReport) -> f64 {
    let rows = if directory.positions.is_empty() { 1.0 } else { 2.0 };
    WORDS + rows * (PANEL + BELOW + 18.0)
}

fn draw_directory(svg: &mut Svg, directory: &DirectoryReport, top: f64, needs: Option<f64>) {
    let site = &directory.site;
    let unknown = || "unknown".to_owned();
    let words = format!(
        "{}: {} on {} ({})",
        site.directory.display(),
        site.file_system.clone().unwrap_or_else(unknown),
        site.device.clone().unwrap_or_else(unknown),
        site.disk_text()
    );
    svg.label(28.0, top + 12.0, Type::new(13.5, INK).strong(), &words);
    let verdict = directory.verdict.as_ref().map(|verdict| verdict.words.as_str());
    let remark = directory.passes.iter().map(|pass| pass.remark.as_str()).find(|remark| !remark.is_empty());
    let said = wrapped(verdict.or(remark).unwrap_or_default());
    for (index, line) in said.iter().enumerate() {
        svg.label(28.0, top + 29.0 + 15.0 * index as f64, Type::new(11.5, GREY), line);
    }
    let most = highest(directory, needs);
    let width = (WIDTH - LEFT - RIGHT - 2.0 * BETWEEN) / 3.0;
    for (index, work) in [Work::Write, Work::Read, Work::Mixed].into_iter().enumerate() {
        let x = LEFT + index as f64 * (width + BETWEEN);
        let area = Area { x, y: top + WORDS + 18.0, width, height: PANEL };
        draw_over_time(svg, area, (directory, work), (most, needs));
    }
    if !directory.positions.is_empty() {
        let y = top + WORDS + 2.0 * 18.0 + PANEL + BELOW;
        let area = Area { x: LEFT, y, width: WIDTH - LEFT - RIGHT, height: PANEL };
        draw_by_position(svg, area, directory, (most, needs));
    }
}

/// A sentence on two lines where one is too long.
fn wrapped(words: &str) -> [&str; 2] {
    let end = words.char_indices().nth(MOST_CHARACTERS).map_or(words.len(), |(index, _)| index);
    match words[..end].rfind("; ") {
        Some(cut) if end < words.len() => [&words[..=cut], &words[cut + 2..]],
        _ => [words, ""],
    }
}

/// The highest rate of a directory: its panels are comparable.
fn highest(directory: &DirectoryReport, needs: Option<f64>) -> f64 {
    let passes = directory.passes.iter().flat_map(|pass| [&pass.write, &pass.read]).flatten();
    let positions = directory.positions.iter().flat_map(|position| [&position.write, &position.read]);
    let of = |rate: &Rate| rate.steps_bytes_per_s.iter().copied().fold(rate.bytes_per_s, f64::max);
    let most = passes.map(of).fold(needs.unwrap_or(0.0), f64::max);
    positions.map(|rate| rate.bytes_per_s).fold(most, f64::max)
}

/// A line, its name and its colour.
struct Stroke<'r> {
    rate: &'r Rate,
    name: String,
    colour: &'static str,
}

fn strokes(directory: &DirectoryReport, work: Work) -> Vec<Stroke<'_>> {
    let mut strokes = Vec::new();
    for pass in directory.passes.iter().filter(|pass| pass.work == work) {
        for (index, (rate, of)) in [(&pass.write, "write"), (&pass.read, "read")].into_iter().enumerate() {
            let Some(rate) = rate else { continue };
            let name = match work {
                Work::Mixed => format!("{of} {}", pass.access.word()),
                Work::Write | Work::Read => pass.access.word().to_owned(),
            };
            let second = if work == Work::Mixed { index } else { 0 };
            let number = 2 * second + usize::from(pass.access == Access::Direct);
            strokes.push(Stroke { rate, name, colour: colour::of_source(number) });
        }
    }
    strokes
}

fn draw_over_time(
    svg: &mut Svg,
    area: Area,
    (directory, work): (&DirectoryReport, Work),
    (most, needs): (f64, Option<f64>),
) {
    let title = match work {
        Work::Write => "Write",
        Work::Read => "Read",
        Work::Mixed => "Write while an older file is read",
    };
    svg.label(area.x, area.y - 22.0, Type::new(12.5, INK).strong(), title);
    let strokes = strokes(directory, work);
    let end_s = strokes.iter().map(|stroke| stroke.rate.seconds).fold(0.0, f64::max);
    let frame = frame(area, Scale::linear(0.0, end_s), most);
    frame.draw(svg);
    frame.name_axes(svg, "time / s", "MB/s");
    let mut x = area.x;
    for stroke in &strokes {
        svg.label(x, area.y - 7.0, Type::new(10.5, stroke.colour), &stroke.name);
        x += 12.0 + 5.6 * stroke.name.len() as f64;
        svg.path(&line(&frame, stroke.rate), "none", 0.0, stroke.colour, 1.5);
    }
    draw_needed(svg, &frame, needs);
}

fn frame(area: Area, x: Scale, most: f64) -> Frame {
    Frame { area, x, y: Scale::linear(0.0, 1.08 * most / MB), numbers: (true, true) }
}

/// The steps as a line through their middles; a measurement shorter than a step is its mean, level.
fn line(frame: &Frame, rate: &Rate) -> String {
    let mut commands = String::new();
    if rate.steps_bytes_per_s.len() < 2 {
        let y = frame.down(rate.bytes_per_s / MB);
        return format!("M{:.1} {y:.1}H{:.1}", frame.across(0.0), frame.across(rate.seconds));
    }
    for (index, value) in rate.steps_bytes_per_s.iter().enumerate() {
        let (x, y) = (frame.across((index as f64 + 0.5) * rate.step_s), frame.down(value / MB));
        // Writing to a String cannot fail.
        let _ = write!(commands, "{}{x:.1} {y:.1}", if index == 0 { "M" } else { "L" });
    }
    commands
}

fn draw_needed(svg: &mut Svg, frame: &Frame, needs: Option<f64>) {
    let Some(needs) = needs else { return };
    let y = frame.down(needs / MB);
    let mut dashes = String::new();
    let mut x = frame.area.x;
    while x < frame.area.right() {
        let length = (frame.area.right() - x).min(5.0);
        let _ = write!(dashes, "M{x:.1} {y:.1}h{length:.1}");
        x += 9.0;
    }
    svg.path(&dashes, "none", 0.0, NEEDED, 1.2);
    svg.label(frame.area.right() - 3.0, y - 4.0, Type::new(10.5, NEEDED).end(), "needed");
}

/// Each file as a level stroke from its first to its last byte, with a disc at its mean position; where positions are unknown, in the order of writing.
fn draw_by_position(
    svg: &mut Svg,
    area: Area,
    directory: &DirectoryReport,
    (most, needs): (f64, Option<f64>),
) {
    let positions = &directory.positions;
    let is_known = positions.iter().all(|position| position.placement.is_some());
    svg.label(area.x, area.y - 22.0, Type::new(12.5, INK).strong(), "By position");
    let end = match is_known {
        true => positions
            .iter()
            .filter_map(|position| Some(position.placement?.to_bytes as f64))
            .fold(0.0, f64::max),
        false => positions.len() as f64,
    };
    let whole = directory.site.device_bytes.map_or(end, |bytes| end.max(bytes as f64));
    let (scale, words) = match is_known {
        true => (Scale::linear(0.0, whole / 1e9), "position on the device / GB"),
        false => (Scale::linear(0.0, end), "file, in the order of writing: positions are unknown"),
    };
    let frame = frame(area, scale, most);
    frame.draw(svg);
    frame.name_axes(svg, words, "MB/s");
    for (index, name) in ["write", "read"].into_iter().enumerate() {
        let stroke = colour::of_source(index);
        svg.label(area.x + 60.0 * index as f64, area.y - 7.0, Type::new(11.5, stroke).strong(), name);
        for position in positions {
            let rate = if index == 0 { &position.write } else { &position.read };
            let (from, to) = span(position, is_known);
            let y = frame.down(rate.bytes_per_s / MB);
            let path = format!("M{:.1} {y:.1}H{:.1}", frame.across(from), frame.across(to));
            svg.path(&path, "none", 0.0, stroke, 2.0);
            if let Some(found) = position.placement.filter(|_| is_known) {
                let x = frame.across(found.mean_bytes * 1e-9) - 3.0;
                svg.path(&format!("M{x:.1} {y:.1}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0"), stroke, 1.0, "none", 0.0);
            }
        }
    }
    draw_needed(svg, &frame, needs);
}

fn span(position: &Position, is_known: bool) -> (f64, f64) {
    match position.placement.filter(|_| is_known) {
        Some(found) => (found.from_bytes as f64 * 1e-9, found.to_bytes as f64 * 1e-9),
        None => (f64::from(position.file) + 0.1, f64::from(position.file) + 0.9),
    }
}

#[cfg(test)]
mod tests {
    use thalweg_qualify::storage::{PATTERN, PUBLISHED, Pass, Placement, Site, Sync};

    use super::*;

    fn rate(steps: usize) -> Rate {
        Rate {
            bytes: 1 << 30,
            seconds: 0.1 * steps as f64,
            forced_seconds: 0.2,
            bytes_per_s: 4e8,
            lowest_second_bytes_per_s: None,
            longest_call_s: 0.01,
            fall: None,
            step_s: 0.1,
            steps_bytes_per_s: (0..steps).map(|step| 4e8 + 1e6 * step as f64).collect(),
        }
    }

    fn site() -> Site {
        Site {
            directory: "/data".into(),
            file_system: None,
            mount_point: None,
            mount_options: None,
            device: None,
            disks: Default::default(),
            model: None,
            is_rotating: None,
            device_bytes: None,
            partition_start_bytes: None,
            device_number: 1,
        }
    }

    fn report(positions: Vec<Position>) -> StorageReport {
        let pass = |work, access, steps| Pass {
            work,
            access,
            write: (work != Work::Read).then(|| rate(steps)),
            read: (work != Work::Write).then(|| rate(steps)),
            is_beyond_page_cache: None,
            remark: "a < remark".to_owned(),
        };
        let directory = DirectoryReport {
            site: site(),
            total_bytes: 1,
            free_bytes: 1,
            floor_bytes: 1,
            passes: vec![
                pass(Work::Write, Access::Buffered, 40),
                pass(Work::Read, Access::Direct, 1),
                pass(Work::Mixed, Access::Direct, 0),
            ],
            positions,
            fio: Vec::new(),
            verdict: None,
            remarks: Vec::new(),
        };
        StorageReport {
            file_bytes: 1 << 30,
            chunk_bytes: 4096,
            batch_bytes: 4096,
            sync: Sync::None,
            pattern: PATTERN,
            seed: 1,
            memory_bytes: None,
            is_virtual: None,
            needs_bytes_per_s: Some(5e8),
            directories: vec![directory],
            published: PUBLISHED,
            seconds: 1.0,
        }
    }

    #[test]
    fn rates_and_positions_are_drawn_with_what_is_needed_and_no_bad_numbers() {
        let position = |file: u32| Position {
            file,
            placement: Some(Placement {
                from_bytes: u64::from(file) << 30,
                to_bytes: u64::from(file + 1) << 30,
                mean_bytes: f64::from(file) * 1.1e9,
                extents: 3,
            }),
            remark: String::new(),
            write: rate(3),
            read: rate(3),
        };
        let mut positions: Vec<Position> = (0..10).map(position).collect();
        let known = storage_svg(&report(positions.clone()));
        assert!(known.contains("By position") && known.contains("position on the device / GB"));
        positions[4].placement = None;
        let unknown = storage_svg(&report(positions));
        assert!(unknown.contains("positions are unknown"));
        let without = storage_svg(&report(Vec::new()));
        assert!(!without.contains("By position"));
        for text in [known, unknown, without] {
            assert!(text.contains("needed") && text.contains("buffered") && text.contains("a &lt; remark"));
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        }
    }
}
