//! Registers, read again and again: their values, how fast they change, and a plot of the latest ones.
//!
//! ```text
//!  every so often: one dispatch ─► Series of each register ─► a line that stays in place, or a line of text or JSON
//! ```

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Map, Value, json};
use thalweg_ipbus::board::Board;
use thalweg_ipbus::table::number;

use super::open;
use crate::arguments::IpbusWatch;
use crate::commands::Ended;
use crate::progress::StandingLines;
use crate::report::{CommandOutcome, print, si};
use crate::signals::Signals;
use crate::terminal;

/// Values that a line shows.
const PLOTTED: usize = 48;
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const STEP: Duration = Duration::from_millis(20);

/// The readings of one register.
struct Series {
    register: String,
    /// The latest values; none where nothing came.
    latest: VecDeque<Option<u32>>,
    range: Option<(u32, u32)>,
    /// The last value, when it came, and how fast it changed since the one before, per second.
    last: Option<(Instant, u32, f64)>,
    read: u64,
    missing: u64,
    error: Option<String>,
}

impl Series {
    fn new(register: &str) -> Series {
        let register = register.to_owned();
        Series {
            register,
            latest: VecDeque::with_capacity(PLOTTED),
            range: None,
            last: None,
            read: 0,
            missing: 0,
            error: None,
        }
    }

    fn add(&mut self, now: Instant, came: Result<u32, String>) {
        if self.latest.len() == PLOTTED {
            self.latest.pop_front();
        }
        self.latest.push_back(came.as_ref().ok().copied());
        let value = match came {
            Ok(value) => value,
            Err(error) => {
                (self.missing, self.error) = (self.missing + 1, Some(error));
                return;
            }
        };
        (self.read, self.error) = (self.read + 1, None);
        let (least, most) = self.range.unwrap_or((value, value));
        self.range = Some((least.min(value), most.max(value)));
        let change_hz = self.last.map_or(0.0, |(then, before, _)| {
            let seconds = now.saturating_duration_since(then).as_secs_f64();
            (f64::from(value) - f64::from(before)) / seconds.max(f64::MIN_POSITIVE)
        });
        self.last = Some((now, value, change_hz));
    }

    /// The latest values between their smallest and their largest; a gap where nothing came.
    fn plot(&self) -> String {
        let shown = || self.latest.iter().flatten();
        let (least, most) = (shown().min().copied().unwrap_or(0), shown().max().copied().unwrap_or(0));
        let span = u64::from(most - least).max(1);
        let level = |value: &Option<u32>| match value {
            Some(value) => LEVELS[(u64::from(value - least) * (LEVELS.len() as u64 - 1) / span) as usize],
            None => ' ',
        };
        self.latest.iter().map(level).collect()
    }

    fn line(&self, width: usize) -> String {
        let register = format!("  {:width$}", self.register);
        match (&self.error, self.last) {
            (Some(error), _) => format!("{register}  {error}"),
            (None, None) => register,
            (None, Some((_, value, change_hz))) => {
                let change = format!("{}/s", si(change_hz).trim_end());
                format!("{register}  {value:#010x} {value:>10}  {change:>9}  {}", self.plot())
            }
        }
    }

    fn summary(&self) -> Value {
        json!({
            "register": self.register,
            "read": self.read,
            "missing": self.missing,
            "smallest": self.range.map(|(least, _)| least),
            "largest": self.range.map(|(_, most)| most),
            "last": self.last.map(|(_, value, _)| value),
        })
    }

    fn words(&self) -> String {
        let values = match (self.range, self.last) {
            (Some((least, most)), Some((_, last, _))) => format!("{least} to {most}, last {last}"),
            _ => "nothing came".to_owned(),
        };
        let missing = match self.missing {
            0 => String::new(),
            missing => format!(", {missing} times in vain"),
        };
        format!("{}: read {} times{missing}; {values}\n", self.register, self.read)
    }
}

fn read_each(board: &mut Board, registers: &[String]) -> Vec<Result<u32, String>> {
    let names: Vec<&str> = registers.iter().map(String::as_str).filter(|one| number(one).is_none()).collect();
    let mut named = board.read_all(&names).into_iter();
    let mut value = |register: &String| match number(register) {
        Some(address) => board.client_mut().read(address).map_err(|error| error.to_string()),
        None => named.next().map_or_else(
            || Err("it was not read".to_owned()),
            |value| value.map_err(|error| error.to_string()),
        ),
    };
    registers.iter().map(&mut value).collect()
}

/// One look, as a line of text or of JSON.
fn look_line(all: &[Series], seconds: f64, json: bool) -> String {
    let value = |one: &Series| one.latest.back().copied().flatten();
    if json {
        let values: Map<String, Value> =
            all.iter().map(|one| (one.register.clone(), json!(value(one)))).collect();
        let errors: Map<String, Value> =
            all.iter().filter_map(|one| Some((one.register.clone(), json!(one.error.as_ref()?)))).collect();
        return json!({ "seconds": seconds, "values": values, "errors": errors }).to_string();
    }
    let word = |one: &Series| match value(one) {
        Some(value) => format!("{} = {value:#010x}", one.register),
        None => format!("{}: {}", one.register, one.error.as_deref().unwrap_or_default()),
    };
    format!("{seconds:9.3} s  {}", all.iter().map(word).collect::<Vec<_>>().join("  "))
}

/// Watches registers until it has seen enough, or the command is interrupted.
pub(super) fn watch(options: &IpbusWatch, json: bool) -> Ended {
    let mut board = open(&options.target)?;
    if let Some(missing) =
        options.registers.iter().find(|one| number(one).is_none() && board.table().node(one).is_none())
    {
        return Err(super::usage(anyhow::anyhow!(board.table().no_such(missing))));
    }
    let signals = Signals::install().context("signals")?;
    let mut all: Vec<Series> = options.registers.iter().map(|register| Series::new(register)).collect();
    let width = options.registers.iter().map(String::len).max().unwrap_or_default();
    let mut lines = StandingLines::on_terminal(json);
    let (begun, every) = (Instant::now(), Duration::from_millis(options.every_ms));
    let mut due = begun;
    for _ in 0..options.count.unwrap_or(u64::MAX) {
        while Instant::now() < due && !signals.stop_requested() {
            signals.report_hangup();
            std::thread::sleep(due.saturating_duration_since(Instant::now()).min(STEP));
        }
        if signals.stop_requested() {
            break;
        }
        let values = read_each(&mut board, &options.registers);
        let now = Instant::now();
        all.iter_mut().zip(values).for_each(|(series, value)| series.add(now, value));
        match &mut lines {
            Some(lines) => lines.show(all.iter().map(|series| series.line(width)).collect()),
            None => terminal::passing_line(&look_line(&all, (now - begun).as_secs_f64(), json)),
        }
        // One that took longer than the time between two is not made up for.
        due = (due + every).max(now);
    }
    if let Some(lines) = lines {
        lines.finish();
    }
    let value = json!({ "registers": all.iter().map(Series::summary).collect::<Vec<_>>() });
    print(&value, json, |_| all.iter().map(Series::words).collect())?;
    Ok(if all.iter().all(|series| series.read > 0) { CommandOutcome::Done } else { CommandOutcome::Failed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_plots_the_latest_values_and_says_how_fast_they_change() {
        let (start, mut series) = (Instant::now(), Series::new("RATE"));
        let at = |seconds| start + Duration::from_secs(seconds);
        for (second, value) in [(0, 100), (1, 170), (2, 135)] {
            series.add(at(second), Ok(value));
        }
        assert_eq!(series.line(5), "  RATE   0x00000087        135      -35/s  ▁█▄");
        series.add(at(3), Err("no answer".to_owned()));
        assert_eq!(series.line(5), "  RATE   no answer");
        series.add(at(4), Ok(u32::MAX));
        assert!(series.plot().ends_with(" █"), "{}", series.plot());
        assert_eq!(
            series.words(),
            "RATE: read 4 times, 1 times in vain; 100 to 4294967295, last 4294967295\n"
        );
        (0..100).for_each(|second| series.add(at(second), Ok(7)));
        assert_eq!(series.plot(), "▁".repeat(PLOTTED));
    }
}
