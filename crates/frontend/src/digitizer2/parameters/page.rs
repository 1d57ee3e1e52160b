//! The book's page on the parameters is what the table gives.
//!
//! ```text
//!  BOARD, CHANNEL, … ─► rows: name, firmware, values, unit, meaning ─► docs/configuration/x27xx-parameters.md
//! ```

use std::fmt::Write;

use super::*;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration/x27xx-parameters.md");
const MARK: &str = "<!-- Generated from the table of parameters by `make generated`; a test compares. -->";
const COLUMNS: &str = "\n| parameter | firmware | values | unit | meaning |\n|---|---|---|---|---|\n";

const INTRODUCTION: &str = "\
The `parameters` of a `[[source]]` with a `dig2://` board, and what `thalweg board get` and `set` take. Upper and lower case are the same.
`/ch/0..63/par/NAME` sets a range of channels. A name with `S` is in samples, and the same with `T` in nanoseconds: both are one value.

thalweg checks the parameters of all boards before it sets the first. A board that is connected lists its parameters with their limits, and
those decide. This page is what thalweg knows without a board, and what emulated boards have. Its names, words and limits come from the
vendor's public example programs and manuals, and from public control programs of laboratories. **unknown** means that none of these says
it: thalweg accepts every value, and the board decides. Where a list of words ends with `…`, there may be more.

The limits are those of boards with 125 MS/s (2740, 2745), then of those with 500 MS/s (2730) where they differ. Limits of the 2751 are not
published.
";

fn firmware(set: Firmwares) -> String {
    if set == Firmwares::ALL {
        return "all".to_owned();
    }
    let all = [Firmware::Psd, Firmware::Pha, Firmware::Scope, Firmware::Zle, Firmware::OpenDpp];
    all.into_iter().filter(|one| set.has(*one)).map(Firmware::word).collect::<Vec<_>>().join(", ")
}

fn limits(limits: Limits) -> String {
    let text = |range: Option<Range>| range.map_or("unknown".to_owned(), |range| range.to_string());
    let (slow, fast) = (text(limits.at_125_mhz), text(limits.at_500_mhz));
    if slow == fast { slow } else { format!("{slow}; {fast}") }
}

fn words(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" ")
}

fn row(definition: &Definition) -> String {
    let Definition { name, kind, unit, about, is_settable, firmware: set, families } = definition;
    let (name, unit, values) = match kind {
        _ if !is_settable => ((*name).to_owned(), *unit, "read only".to_owned()),
        Kind::Boolean => ((*name).to_owned(), *unit, "`True` `False`".to_owned()),
        Kind::Number(range) => ((*name).to_owned(), *unit, limits(*range)),
        Kind::Samples(range) => (format!("{name}S, {name}T"), "samples, ns", limits(*range)),
        Kind::OneOf(list) => ((*name).to_owned(), *unit, words(list)),
        Kind::Among(list) => ((*name).to_owned(), *unit, format!("{} …", words(list))),
        Kind::AnyOf(list) => ((*name).to_owned(), *unit, format!("{}, joined by `\\|`", words(list))),
        Kind::Text => ((*name).to_owned(), *unit, "text".to_owned()),
    };
    let on: Vec<&str> =
        Family::ALL.iter().filter(|(one, _)| families.contains(one)).map(|(_, word)| *word).collect();
    let on = if on.is_empty() { String::new() } else { format!(" Only {}.", on.join(", ")) };
    format!("| {name} | {} | {values} | {unit} | {about}{on} |\n", firmware(*set))
}

fn page() -> String {
    let mut page = format!("# Parameters of x27xx boards\n\n{MARK}\n\n{INTRODUCTION}");
    for (title, place) in [
        ("`/par`: the board", Place::Board),
        ("`/ch/N/par`: channels", Place::Channel),
        ("`/group/N/par`: four channels", Place::Group),
        ("`/vga/N/par`: sixteen channels", Place::Vga),
        ("`/lvds/N/par`: four LVDS pairs", Place::Lvds),
    ] {
        let rows: String = table(place).iter().map(row).collect();
        let _ = write!(page, "\n## {title}\n{COLUMNS}{rows}");
    }
    page
}

#[test]
fn the_page_of_parameters_is_what_the_table_gives() {
    if std::env::var_os("THALWEG_GENERATE").is_some() {
        std::fs::write(PAGE, page()).expect("the book is writable");
    }
    let written = std::fs::read_to_string(PAGE).expect("the page is there");
    assert!(written == page(), "{PAGE} is not what the table gives; run `make generated`");
}
