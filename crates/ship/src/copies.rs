//! May a table be removed here? Only when enough copies of it are proved.
//!
//! ```text
//!  [ship] copies = N, RUN/.ship/*.json ─► CopyRule ─► [record.retention]: remove, or why not
//! ```

use std::collections::BTreeSet;
use std::path::Path;

use thalweg_record::{TablePart, TableSummary};

use crate::address::Address;
use crate::message::Identity;
use crate::run_state::RunState;
use crate::settings::Settings;

/// How many copies a table needs before it goes, and where they count.
#[derive(Clone, Debug)]
pub struct CopyRule {
    copies: usize,
    to: BTreeSet<String>,
}

impl CopyRule {
    /// The rule of these settings.
    pub fn new(settings: &Settings) -> CopyRule {
        let name = |text: &String| Address::parse(text).map(|address| settings.name_of(&address)).ok();
        CopyRule { copies: settings.copies, to: settings.to.iter().filter_map(name).collect() }
    }

    /// Why tables of a run must stay; `None` when all of them have their copies.
    pub fn reason_to_keep(&self, run: &Path, tables: &[TableSummary]) -> Option<String> {
        let states = RunState::all(run);
        let states: Vec<&RunState> =
            states.iter().filter(|state| self.to.contains(&state.destination)).collect();
        let missing = tables.iter().find_map(|table| {
            let now = Identity::of(&TablePart::at(&run.join(&table.file))?.data);
            let is_copy = |state: &&&RunState| {
                state.files.get(&table.file).is_some_and(|file| file.is_proved(&now, table.crc32c_of(0)))
            };
            let proved = states.iter().filter(is_copy).count();
            (proved < self.copies).then_some((&table.file, proved))
        });
        missing.map(|(file, proved)| {
            let copies = self.copies;
            format!("{file} has {proved} proved copies, and [ship] copies = {copies}; see `thalweg ship`")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digests::Digests;
    use crate::run_state::{FOLDER, FileState};

    #[test]
    fn a_table_stays_until_its_copies_are_proved_and_are_of_this_very_file() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let (run, path) = (folder.path(), folder.path().join("hits.arrows"));
        std::fs::create_dir(run.join(FOLDER)).expect("made");
        std::fs::write(&path, "rows").expect("written");
        let to = vec!["file:///a".to_owned(), "file:///b".to_owned()];
        let rule = |copies| CopyRule::new(&Settings { to: to.clone(), copies, ..Settings::default() });
        let table = TableSummary { file: "hits.arrows".to_owned(), bytes: 4, ..TableSummary::default() };
        let keeps = |copies, crc32c: Option<&str>| {
            let table =
                TableSummary { crc32c: crc32c.map(str::to_owned).into_iter().collect(), ..table.clone() };
            rule(copies).reason_to_keep(run, &[table])
        };
        assert!(keeps(1, None).expect("no copy").contains("0 proved copies"));
        let identity = Identity::of(&std::fs::metadata(&path).expect("there"));
        let finished = Some(Digests { bytes: 4, crc32c: "aa".to_owned(), ..Digests::default() });
        let save = |destination: &str, finished| {
            let file = FileState { identity, proved: 4, finished, ..FileState::default() };
            let files = [("hits.arrows".to_owned(), file)].into();
            RunState { destination: destination.to_owned(), files, ..RunState::default() }
                .save(run)
                .expect("written");
        };
        save("file:///elsewhere", finished.clone());
        save("file:///b", None);
        assert!(keeps(1, None).is_some(), "neither a copy that does not count nor one that is not complete");
        save("file:///a", finished.clone());
        assert_eq!(
            (keeps(1, None), keeps(1, Some("aa")), keeps(1, Some("bb")).is_some()),
            (None, None, true)
        );
        assert!(keeps(2, None).is_some());
        save("file:///b", finished);
        assert_eq!(keeps(2, None), None);
        std::fs::write(&path, "Rows").expect("written");
        let later = std::fs::File::options().write(true).open(&path).expect("opens");
        later.set_modified(std::time::UNIX_EPOCH).expect("set: a clock in the past");
        assert!(keeps(1, None).is_some(), "it was written since");
    }
}
