//! Checks what is to be set at a board, before it is sent.
//!
//! ```text
//!  path, value ─┬─ nodes that the connected board lists, with their limits ─┬─► Ok, or what is allowed in which unit,
//!               └─ else the table, for the board's firmware and hardware ───┘   or the names that are similar
//! ```

use std::collections::HashMap;

use super::path::Ranged;
use super::{BoardKind, Entry, Place, Refusal, Rule, entries};
use crate::digitizer2::Firmware;

/// Names that are suggested at most.
const MOST_SIMILAR: usize = 3;
/// How similar they are, from 0 to 1.
const LEAST_SIMILAR: f64 = 0.6;

/// A parameter as a connected board describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Whether it can be set.
    pub is_settable: bool,
    /// The values that it takes, where the board lists them.
    pub rule: Option<Rule>,
    /// Its unit; empty if the board states none.
    pub unit: String,
}

/// What is known of a board when its parameters are checked.
#[derive(Clone, Debug)]
pub struct Checker {
    /// Its firmware and hardware.
    pub kind: BoardKind,
    /// Its channels.
    pub channels: u16,
    /// Its parameters by their paths in lower case; `None` where it lists none.
    pub nodes: Option<HashMap<String, Node>>,
}

impl Checker {
    /// Checks a parameter and its value.
    ///
    /// # Errors
    /// What is wrong, and what to write.
    pub fn check(&self, path: &str, value: &str) -> Result<(), String> {
        let ranged = Ranged::of(path)?;
        let entry = ranged.place().and_then(|(place, name)| self.entry(place, name));
        let (rule, unit) = match &self.nodes {
            Some(nodes) => self.described(nodes, &ranged, entry)?,
            None => self.documented(&ranged, entry)?,
        };
        rule.check(value).map_err(|refusal| match refusal {
            Refusal::ReadOnly => "it can be read only".to_owned(),
            Refusal::Allowed(allowed) if unit.is_empty() => {
                format!("{value} is not allowed; write {allowed}")
            }
            Refusal::Allowed(allowed) => format!("{value} is not allowed; write {allowed} ({unit})"),
        })
    }

    /// The rule of the board itself.
    fn described(
        &self,
        nodes: &HashMap<String, Node>,
        ranged: &Ranged,
        entry: Option<Entry>,
    ) -> Result<(Rule, String), String> {
        let (first, last) = ranged.numbers.unwrap_or_default();
        let Some(node) = nodes.get(&ranged.at(first)) else { return Err(self.unknown(ranged)) };
        if let Some(missing) = (first..=last).find(|number| !nodes.contains_key(&ranged.at(*number))) {
            return Err(numbers_end(missing, &ranged.before));
        }
        if !node.is_settable {
            return Ok((Rule::ReadOnly, String::new()));
        }
        let documented = entry.as_ref().map(|entry| entry.rule.clone());
        let rule = match (node.rule.clone(), documented) {
            // Boards list the words, and not always that several of them may be joined.
            (Some(Rule::OneOf(words)), Some(Rule::AnyOf(_))) => Rule::AnyOf(words),
            (Some(rule), _) => rule,
            (None, Some(Rule::ReadOnly) | None) => Rule::Anything,
            (None, Some(rule)) => rule,
        };
        let unit = if node.unit.is_empty() {
            entry.map_or("", |entry| entry.unit).to_owned()
        } else {
            node.unit.clone()
        };
        Ok((rule, unit))
    }

    /// The rule of the table, for boards that describe nothing.
    fn documented(&self, ranged: &Ranged, entry: Option<Entry>) -> Result<(Rule, String), String> {
        let Some((place, _)) = ranged.place() else { return Ok((Rule::Anything, String::new())) };
        if let (Place::Channel, Some((_, last))) = (place, ranged.numbers)
            && last >= u32::from(self.channels)
        {
            return Err(numbers_end(self.channels.into(), &ranged.before));
        }
        entry.map(|entry| (entry.rule, entry.unit.to_owned())).ok_or_else(|| self.unknown(ranged))
    }

    fn entry(&self, place: Place, name: &str) -> Option<Entry> {
        entries(place, &self.kind).into_iter().find(|entry| entry.name.eq_ignore_ascii_case(name))
    }

    fn unknown(&self, ranged: &Ranged) -> String {
        let name = ranged.name();
        let own = self.kind.firmware.word();
        let with = |firmware| {
            let kind = BoardKind { firmware, family: None, ..self.kind };
            let other = Checker { kind, nodes: None, channels: self.channels };
            ranged.place().is_some_and(|(place, name)| other.entry(place, name).is_some())
        };
        if with(self.kind.firmware) {
            return "the hardware of this board has no such parameter".to_owned();
        }
        let others = [Firmware::Psd, Firmware::Pha, Firmware::Scope, Firmware::Zle, Firmware::OpenDpp];
        if let Some(firmware) = others.into_iter().find(|firmware| with(*firmware)) {
            return format!("it belongs to the firmware {}, and this board has {own}", firmware.word());
        }
        let names = self.names_beside(ranged);
        match similar(name, &names) {
            similar if similar.is_empty() => {
                format!(
                    "this board, with firmware {own}, has none of that name; `thalweg board dump` lists them"
                )
            }
            similar => format!(
                "this board, with firmware {own}, has none of that name; similar are {}",
                similar.join(", ")
            ),
        }
    }

    /// The names of all parameters where this one is.
    fn names_beside(&self, ranged: &Ranged) -> Vec<String> {
        let documented = ranged.place().map(|(place, _)| entries(place, &self.kind)).unwrap_or_default();
        let documented: Vec<String> = documented.into_iter().map(|entry| entry.name).collect();
        let Some(nodes) = &self.nodes else { return documented };
        let path = ranged.at(ranged.numbers.map_or(0, |(first, _)| first));
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let listed = nodes.keys().filter_map(|path| path.strip_prefix(folder)?.strip_prefix('/'));
        let spelled = |name: &str| {
            let known = documented.iter().find(|known| known.eq_ignore_ascii_case(name));
            known.cloned().unwrap_or_else(|| name.to_owned())
        };
        listed.filter(|name| !name.contains('/')).map(spelled).collect()
    }
}

fn numbers_end(missing: u32, folder: &str) -> String {
    let what = folder.trim_start_matches('/');
    match missing {
        0 => format!("this board has no `{folder}`"),
        1 => format!("this board has one `{what}`: write {folder}/0"),
        count => format!("this board has {count} of `{what}`: write {folder}/0..{}", count - 1),
    }
}

/// The names that are most similar, the best first.
fn similar(name: &str, names: &[String]) -> Vec<String> {
    let likeness = |other: &String| strsim::jaro_winkler(name, &other.to_lowercase());
    let mut found: Vec<(f64, &String)> = names.iter().map(|other| (likeness(other), other)).collect();
    found.retain(|(likeness, _)| *likeness >= LEAST_SIMILAR);
    found.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.cmp(other.1)));
    found.into_iter().take(MOST_SIMILAR).map(|(_, name)| name.clone()).collect()
}
