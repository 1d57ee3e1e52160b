//! The path of a parameter, which may be that of a range of channels.
//!
//! ```text
//!  /ch/0..63/par/DCOffset ─► before "/ch", numbers 0 to 63, after "/par/dcoffset" ─► /ch/0/par/dcoffset, /ch/1/par/dcoffset …
//! ```

use super::Place;

/// A path with a number, or a range of them, such as `/ch/0..63/par/dcoffset`, in lower case.
pub(crate) struct Ranged {
    /// `/ch`; all of it if there is no number.
    pub(super) before: String,
    after: String,
    pub(super) numbers: Option<(u32, u32)>,
}

impl Ranged {
    /// Takes a path apart.
    ///
    /// # Errors
    /// When an element begins with a digit and is neither a number nor a range.
    pub(crate) fn of(path: &str) -> Result<Ranged, String> {
        let lower = path.trim().trim_end_matches('/').to_lowercase();
        let elements: Vec<&str> = lower.split('/').filter(|element| !element.is_empty()).collect();
        let is_number = |element: &&str| element.starts_with(|first: char| first.is_ascii_digit());
        let joined = |elements: &[&str]| elements.iter().map(|element| format!("/{element}")).collect();
        let Some(at) = elements.iter().position(is_number) else {
            return Ok(Ranged { before: joined(&elements), after: String::new(), numbers: None });
        };
        let (first, last) = elements[at].split_once("..").unwrap_or((elements[at], elements[at]));
        let numbers =
            first.parse().ok().zip(last.parse().ok()).filter(|(first, last): &(u32, u32)| first <= last);
        let numbers = numbers
            .ok_or_else(|| format!("`{}` is no number and no range; write 0 or 0..63", elements[at]))?;
        Ok(Ranged {
            before: joined(&elements[..at]),
            after: joined(&elements[at + 1..]),
            numbers: Some(numbers),
        })
    }

    /// The path of one of the numbers.
    pub(super) fn at(&self, number: u32) -> String {
        match self.numbers {
            Some(_) => format!("{}/{number}{}", self.before, self.after),
            None => self.before.clone(),
        }
    }

    /// The paths of all its numbers; the path itself if it has none.
    pub(crate) fn each(&self) -> impl Iterator<Item = String> {
        let (first, last) = self.numbers.unwrap_or_default();
        (first..=last).map(|number| self.at(number))
    }

    /// The place in the table, and the name there.
    pub(super) fn place(&self) -> Option<(Place, &str)> {
        let place = match (self.before.as_str(), self.numbers) {
            ("/ch", Some(_)) => Place::Channel,
            ("/group", Some(_)) => Place::Group,
            ("/vga", Some(_)) => Place::Vga,
            ("/lvds", Some(_)) => Place::Lvds,
            (board, None) => return Some((Place::Board, board.strip_prefix("/par/")?)),
            _ => return None,
        };
        Some((place, self.after.strip_prefix("/par/")?))
    }

    /// The last element.
    pub(super) fn name(&self) -> &str {
        let path = if self.numbers.is_some() { &self.after } else { &self.before };
        path.rsplit('/').next().unwrap_or(path)
    }
}
