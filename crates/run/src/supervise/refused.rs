//! The first units that were refused, as people see them: whose, which, why, what was expected, and the bytes.
//!
//! ```text
//!  RefusedGauges ─► the first of each place and reason ─► the text of a summary
//! ```

use std::fmt::Write;

use thalweg_monitor::state::RefusedUnit;

/// A line of words, and the bytes below it.
fn write(unit: &RefusedUnit, text: &mut String) -> std::fmt::Result {
    let RefusedUnit { source, stage, reason, seconds, bytes, expected, .. } = unit;
    let trigger = unit.trigger.map_or(String::new(), |trigger| format!("trigger {trigger}, "));
    writeln!(
        text,
        "  {source} at {stage}: {reason}: {trigger}{bytes} bytes after {seconds:.3} s; expected {expected}"
    )?;
    for (line, digits) in unit.head.as_bytes().chunks(2 * LINE_BYTES).take(LINES_SHOWN).enumerate() {
        write!(text, "    {:04x} ", line * LINE_BYTES)?;
        for (index, pair) in digits.chunks(2).enumerate() {
            let space = if index % 4 == 0 { " " } else { "" };
            write!(text, "{space}{}", String::from_utf8_lossy(pair))?;
        }
        text.push('\n');
    }
    Ok(())
}

/// Bytes in a line of a dump.
const LINE_BYTES: usize = 16;
/// Lines of a dump that the text has: the header of every format. `run.json` has more.
const LINES_SHOWN: usize = 3;
/// Dumps in the text: one of each place and reason, and no more than these.
const DUMPS_SHOWN: usize = 6;

/// Writes the first of each place and reason, and how many more there are.
pub(super) fn write_first(units: &[RefusedUnit], text: &mut String) -> std::fmt::Result {
    let mut shown: Vec<&RefusedUnit> = Vec::new();
    for unit in units {
        let alike = |other: &&RefusedUnit| (other.stage, other.reason) == (unit.stage, unit.reason);
        if shown.len() < DUMPS_SHOWN && !shown.iter().any(alike) {
            shown.push(unit);
        }
    }
    if shown.is_empty() {
        return Ok(());
    }
    writeln!(text, "refused, the first of each kind:")?;
    shown.iter().try_for_each(|unit| write(unit, text))?;
    match units.len() - shown.len() {
        0 => Ok(()),
        more => writeln!(text, "  … and {more} more dumps in run.json"),
    }
}

#[cfg(test)]
mod tests {
    use thalweg_data::{LossReason, Mark, Refused, SourceId, Stage};

    use super::*;
    use crate::gauges::RefusedGauges;

    #[test]
    fn the_text_has_one_of_each_kind_with_its_bytes() {
        let names = ["left".to_owned(), "right".to_owned()];
        let refused = Refused::new(LossReason::BadHash, Mark(2_000_000), &[0x74; 40], "others".to_owned());
        let of_board = Refused { source: Some(SourceId(1)), trigger: Some(17), ..refused.clone() };
        let gauges = RefusedGauges::default();
        let unit = |refused: &Refused| RefusedUnit::new(Stage::Unpack, refused, &names, "link");
        gauges.set("one", vec![unit(&Refused { mark: Mark(5_000_000), ..of_board.clone() })]);
        gauges.set("two", vec![unit(&refused), unit(&of_board)]);
        let all = gauges.all();
        assert_eq!(
            all.iter().map(|unit| unit.source.as_str()).collect::<Vec<_>>(),
            ["link", "right", "right"]
        );
        let mut text = String::new();
        write_first(&all, &mut text).expect("a string takes everything");
        assert!(
            text.contains("  link at unpack: bad_hash: 40 bytes after 0.002 s; expected others\n"),
            "{text}"
        );
        assert!(text.contains("    0000  74747474 74747474 74747474 74747474\n"), "{text}");
        assert!(text.ends_with("    0020  74747474 74747474\n  … and 2 more dumps in run.json\n"), "{text}");
    }
}
