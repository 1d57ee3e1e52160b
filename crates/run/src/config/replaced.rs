//! A recorded configuration of which some sections are replaced by those of another file: what a replay does otherwise.
//!
//! ```text
//!  recorded text ─► sections of these names become comments ─┐
//!  another file ──► its sections of these names ─────────────┴─► text ─► Configuration
//! ```
//! The file is a configuration, or a part of one: the same reader checks it. The text that results is what the new run was made with, and is
//! recorded with it.

use std::path::{Path, PathBuf};

use thalweg_record::ReplacedSections;

use super::error::CONFIGURATION;
use super::section_text::{Chunk, chunks};
use super::{ConfigError, Configuration, line, read_text, reader};

/// What a replay can replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaceable {
    /// `[[cut]]` and `[[polygon]]`.
    Cuts,
    /// `[channels]`, `[[channel]]` and `[clocks]`.
    Calibration,
    /// `[coincidence]`.
    Coincidence,
    /// `[filter]`.
    Filter,
}

impl Replaceable {
    /// Its word in `run.json`, and that of the option.
    pub const fn word(self) -> &'static str {
        match self {
            Replaceable::Cuts => "cuts",
            Replaceable::Calibration => "calibration",
            Replaceable::Coincidence => "coincidence",
            Replaceable::Filter => "filter",
        }
    }

    /// Its sections, each with how it is written.
    const fn sections(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Replaceable::Cuts => &[("cut", "[[cut]]"), ("polygon", "[[polygon]]")],
            Replaceable::Calibration => {
                &[("channels", "[channels]"), ("channel", "[[channel]]"), ("clocks", "[clocks]")]
            }
            Replaceable::Coincidence => &[("coincidence", "[coincidence]")],
            Replaceable::Filter => &[("filter", "[filter]")],
        }
    }
}

/// Sections of a file that take the place of the recorded ones of the same names.
#[derive(Clone, Debug)]
pub struct Replacement {
    what: Replaceable,
    file: PathBuf,
    text: String,
    /// The sections that the file has.
    sections: Vec<&'static str>,
}

impl Replacement {
    /// Reads a file: a configuration, or a part of one. Of what it has, the sections of `what` are taken.
    ///
    /// # Errors
    /// When it cannot be read, says something that is not allowed, or has no such section.
    pub fn read(what: Replaceable, file: &Path) -> Result<Replacement, ConfigError> {
        let text = read_text(file, CONFIGURATION)?;
        reader::part(file, &text)?;
        let all = chunks(&text);
        let is_there = |section: &&str| all.iter().any(|chunk| chunk.section == **section);
        let sections: Vec<_> = what.sections().iter().map(|(name, _)| *name).filter(is_there).collect();
        if sections.is_empty() {
            let wanted: Vec<_> = what.sections().iter().map(|(_, header)| *header).collect();
            let report =
                format!("has no {}: --{} takes these sections of it", wanted.join(", no "), what.word());
            return Err(ConfigError::NotAllowed { file: file.to_owned(), report });
        }
        Ok(Replacement { what, file: file.to_owned(), text, sections })
    }

    /// The same for the record of a run.
    pub(crate) fn record(&self) -> ReplacedSections {
        ReplacedSections::of(self.what.word(), &self.sections, &self.file, &self.text)
    }

    /// A file that it names: paths in it are relative to its folder.
    fn beside(&self, file: &Path) -> PathBuf {
        let path = self.file.parent().unwrap_or(Path::new("")).join(file);
        std::path::absolute(&path).unwrap_or(path)
    }

    /// Returns true if it replaces the section of this name.
    pub(crate) fn replaces(&self, section: &str) -> bool {
        self.sections.contains(&section)
    }

    /// The chunks of its text that are taken.
    fn taken(&self) -> impl Iterator<Item = Chunk> {
        chunks(&self.text).into_iter().filter(|chunk| self.replaces(&chunk.section))
    }

    /// The line of its file that a message is about, if it names a section that was taken.
    fn line_of(&self, message: &str) -> Option<usize> {
        // In place of everything else, its lines are empty.
        let (mut lines, mut end) = (String::new(), 0);
        for Chunk { bytes, .. } in self.taken() {
            lines.extend(self.text[end..bytes.start].matches('\n'));
            lines.push_str(&self.text[bytes.clone()]);
            end = bytes.end;
        }
        line::line_in_section(&lines, message)
    }
}

/// What a configuration was before sections of it were replaced, and by what.
#[derive(Clone, Debug)]
pub(super) struct Replaced {
    recorded: String,
    by: Vec<Replacement>,
}

impl Replaced {
    /// Where a message about values has its cause: the file, and its line if that is known. `recorded` is the file of the recorded text.
    pub(super) fn place_of<'r>(&'r self, message: &str, recorded: &'r Path) -> (&'r Path, Option<usize>) {
        let of_replacement = |by: &'r Replacement| Some((by.file.as_path(), Some(by.line_of(message)?)));
        let place = self.by.iter().find_map(of_replacement);
        place.unwrap_or_else(|| (recorded, line::line_of(&self.recorded, message)))
    }
}

impl Configuration {
    /// Reads the text of a recorded run, which stands in `file`, with some of its sections replaced.
    ///
    /// # Errors
    /// As for [`Configuration::read`].
    pub(crate) fn parse_replaced(
        file: &Path,
        recorded: &str,
        by: &[Replacement],
    ) -> Result<Configuration, ConfigError> {
        let mut configuration = Configuration::parse(file, replaced_text(recorded, by))?;
        if let Some(calibration) = by.iter().find(|by| by.replaces("channels")) {
            let table = &mut configuration.channels.file;
            *table = table.take().map(|table| calibration.beside(&table));
        }
        configuration.replaced =
            (!by.is_empty()).then(|| Replaced { recorded: recorded.to_owned(), by: by.to_vec() });
        Ok(configuration)
    }
}

/// The recorded text with these sections in place of its own, which become comments.
fn replaced_text(recorded: &str, by: &[Replacement]) -> String {
    let mut text = String::new();
    // Behind a header, a key without one would belong to that.
    for (by, chunk) in by.iter().flat_map(|by| by.taken().map(move |chunk| (by, chunk))) {
        if chunk.is_headless {
            push_lines(&by.text[chunk.bytes], "", &mut text);
        }
    }
    let mut end = 0;
    for Chunk { section, bytes, .. } in chunks(recorded) {
        push_lines(&recorded[end..bytes.start], "", &mut text);
        let is_replaced = by.iter().any(|by| by.replaces(&section));
        push_lines(&recorded[bytes.clone()], if is_replaced { "# " } else { "" }, &mut text);
        end = bytes.end;
    }
    push_lines(&recorded[end..], "", &mut text);
    for by in by {
        end_line(&mut text);
        text.push_str(&format!("\n# --{} {:?}\n", by.what.word(), by.file));
        by.taken()
            .filter(|chunk| !chunk.is_headless)
            .for_each(|chunk| push_lines(&by.text[chunk.bytes], "", &mut text));
    }
    text
}

/// Appends whole lines, each behind `prefix` unless it is empty.
fn push_lines(lines: &str, prefix: &str, text: &mut String) {
    for line in lines.split_inclusive('\n') {
        end_line(text);
        if !line.trim().is_empty() {
            text.push_str(prefix);
        }
        text.push_str(line);
    }
}

fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = "# as it was\n[run]\ntitle = \"t\"\n\n[[source]]\nname = \"a\"\nformat = \"abcd\"\nurl = \"file:///x.ade\"\ntick_ps = 2.0\n\n\
                            # bright ones\n[[cut]]\nname = \"bright\"\nkeep = \"energy > 1000\"\n\n[channels]\nfile = \"old.csv\"\n[record]\ndirectory = \"runs\"";

    fn replacement(what: Replaceable, text: &str) -> Result<Replacement, ConfigError> {
        let folder = tempfile::tempdir().expect("temporary folder");
        let file = folder.path().join("other.toml");
        std::fs::write(&file, text).expect("written");
        Replacement::read(what, &file)
    }

    fn replaced(what: Replaceable, text: &str) -> Configuration {
        let by = replacement(what, text).expect("a part of a configuration");
        Configuration::parse_replaced(Path::new("run.json"), RECORDED, &[by]).expect("valid")
    }

    #[test]
    fn without_replacements_the_text_stays_as_it_was() {
        let configuration = Configuration::parse_replaced(Path::new("run.json"), RECORDED, &[]);
        assert_eq!(configuration.expect("valid").text, RECORDED);
    }

    #[test]
    fn replaced_sections_become_comments_and_the_others_stay() {
        let configuration = replaced(
            Replaceable::Cuts,
            "# dark ones\n[[cut]]\nname = \"a\"\nkeep = \"energy < 9\"\n[run]\ntitle = \"of another file\"\n[[cut]]\nname = \"b\"\nkeep = \"psd > 0\"\n",
        );
        let keep: Vec<&str> = configuration.process.cuts.iter().map(|cut| cut.keep.as_str()).collect();
        assert_eq!(keep, ["energy < 9", "psd > 0"]);
        assert_eq!(configuration.run.title, "t");
        let text = &configuration.text;
        let begin = RECORDED.replace(
            "# bright ones\n[[cut]]\nname = \"bright\"\nkeep",
            "# # bright ones\n# [[cut]]\n# name = \"bright\"\n# keep",
        );
        assert!(text.starts_with(&format!("{begin}\n\n# --cuts \"")), "{text}");
        let end = "# dark ones\n[[cut]]\nname = \"a\"\nkeep = \"energy < 9\"\n[[cut]]\nname = \"b\"\nkeep = \"psd > 0\"\n";
        assert!(text.ends_with(&format!("other.toml\"\n{end}")), "{text}");
    }

    #[test]
    fn no_cuts_at_all_are_a_replacement_too() {
        let configuration = replaced(Replaceable::Cuts, "cut = []");
        assert!(configuration.process.cuts.is_empty());
        assert!(configuration.text.starts_with("cut = []\n# as it was\n[run]\n"), "{}", configuration.text);
    }

    #[test]
    fn a_table_of_channels_is_looked_for_beside_the_file_that_names_it() {
        let table = |text| replaced(Replaceable::Calibration, text).channels.file.expect("named");
        let new = table("[channels]\nfile = \"new.csv\"\n");
        assert!(new.is_absolute() && new.ends_with("new.csv"), "{}", new.display());
        assert_eq!(table("[[channel]]\nnumber = 0\n"), Path::new("old.csv"));
    }

    #[test]
    fn a_message_names_the_file_in_which_its_cause_stands() {
        let configuration = replaced(
            Replaceable::Calibration,
            "[[cut]]\nname = \"not taken\"\nkeep = \"x\"\n\n[[channel]]\nnumber = 7\noffset_ps = 1\n",
        );
        let said = |message: &str| configuration.invalid(message).to_string();
        assert!(said("[[channel]] channel 7: `offset_ps` x").contains("other.toml: line 7: [[channel]]"));
        assert!(
            said("[[cut]] \"not taken\": x").starts_with("run.json: line 12: [[cut]]"),
            "the recorded one"
        );
        assert!(said("[record]: x").starts_with("run.json: line 18: "), "{}", said("[record]: x"));
    }

    #[test]
    fn what_is_no_part_of_a_configuration_is_refused_with_its_line() {
        let refused = |text: &str| replacement(Replaceable::Cuts, text).expect_err("refused").to_string();
        for (text, words) in [
            ("", "other.toml: has no [[cut]], no [[polygon]]: --cuts takes these sections of it"),
            ("[coincidence]\n", "has no [[cut]], no [[polygon]]"),
            ("[[cutt]]\nkeep = \"x\"\n", "line 1, column 3: unknown section `cutt`"),
            ("[[cut]]\nkep = \"x\"\n", "unknown field `kep`"),
            ("[cut]\nkeep = \"x\"\n", "write [[cut]] with two brackets"),
            ("[[cut]\n", "line 1"),
        ] {
            assert!(refused(text).contains(words), "{text:?}: {}", refused(text));
        }
        let missing = Replacement::read(Replaceable::Cuts, Path::new("/nowhere/cuts.toml"));
        assert!(missing.expect_err("missing").to_string().starts_with("/nowhere/cuts.toml: No such file"));
    }
}
