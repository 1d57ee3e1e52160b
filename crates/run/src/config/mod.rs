//! The configuration file: one TOML file whose shape is deliberately that of the path.
//!
//! ```text
//!  text ─► tables with their places ─► each room's own settings ─► Configuration
//!                    └─ an error points at file, line and key, and says what is allowed
//! ```
//! Each crate owns and checks its settings; here they are only found in the file. A `[[source]]` holds three kinds of keys side by side:
//! those of the run (`name`, `format`, …), of the endpoint, and of the format.

mod channel_range;
mod error;
mod line;
mod reader;
mod replaced;
mod run;
mod schema;
mod section_text;
mod slow_control;
mod source;
mod threads;
mod trigger;
mod unattended;
mod unit;

use std::path::{Path, PathBuf};

use thalweg_frontend::format::{FormatSettings, HitFormat};
use thalweg_monitor::state::EndWhen;
use thalweg_record::Table;

pub(crate) use channel_range::ChannelRange;
use error::CONFIGURATION;
pub use error::ConfigError;
pub(crate) use error::read_text;
pub use replaced::{Replaceable, Replacement};
pub use run::RunSettings;
pub use schema::json_schema;
pub use slow_control::SeriesSettings;
pub(crate) use slow_control::{check as check_slow_control, offered, read_by_keepers};
pub(crate) use source::KEYS_OF_HITS;
pub use source::{SourceHead, SourceSettings};
pub(crate) use threads::OTHERS;
pub use threads::{PlaceSettings, PlacedSettings, ThreadSettings};
pub use trigger::FollowTrigger;
pub use unattended::Unattended;
pub use unit::{UnitKind, UnitSettings};

/// A whole configuration file.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// The file it was read from, for messages; paths in it are relative to its folder.
    pub file: PathBuf,
    /// The text as it was, kept with the recording.
    pub text: String,
    /// `[run]`.
    pub run: RunSettings,
    /// `[[source]]`, in order.
    pub sources: Vec<SourceSettings>,
    /// `[order]`.
    pub order: thalweg_order::Settings,
    /// `[channels]`.
    pub channels: thalweg_analysis::channels::Settings,
    /// `[[channel]]`: what is known of single channels.
    pub channel: Vec<thalweg_analysis::channels::ChannelSettings>,
    /// `[clocks]`, `[[stage]]`, `[[cut]]`, `[[polygon]]`, `[coincidence]`, `[spectra]`, `[[spectrum]]`: what is done with ordered hits.
    pub process: thalweg_analysis::process::Settings,
    /// `[trigger]`: what triggers the emulated boards.
    pub trigger: thalweg_frontend::trigger::Settings,
    /// The file has keys of it.
    pub(crate) has_trigger: bool,
    /// `[trigger.follow]`.
    pub follow: Option<FollowTrigger>,
    /// `[trigger.enable]`: the register that lets a real trigger through while data are taken.
    pub enable: Option<thalweg_readout::Switch>,
    /// `[busy]`: how a real trigger is asked to wait.
    pub busy: thalweg_readout::busy::BusySettings,
    /// The file has `[build]`.
    pub(crate) has_build: bool,
    /// `[build]`.
    pub build: thalweg_build::Settings,
    /// `[build.units]`.
    pub unit_rules: thalweg_build::unit::Settings,
    /// `[slices]`: what takes the place of triggers where there are none.
    pub slices: Option<thalweg_build::slices::Settings>,
    /// `[filter]`: which of the built events are recorded.
    pub filter: Option<thalweg_analysis::event_filter::Settings>,
    /// `[[unit]]`: building over several units.
    pub units: Vec<UnitSettings>,
    /// The node that this process is; from the command line only. Without it, this process is all of them.
    pub node: Option<String>,
    /// `[threads]`: on which cores the run's threads run.
    pub threads: ThreadSettings,
    /// `[record]`.
    pub record: thalweg_record::Settings,
    /// `[ship]`: where copies of the runs go.
    pub ship: Option<thalweg_ship::Settings>,
    /// `[[control]]`: devices that are set for a run, and read in it, …
    pub controls: Vec<thalweg_readout::DeviceSettings>,
    /// `[[series]]`: … and what is read of them.
    pub series: Vec<SeriesSettings>,
    /// `[monitor]`: where the page is served, if it is.
    pub monitor: Option<thalweg_monitor::Settings>,
    /// `[[alarm]]`: what is reported when something goes wrong, …
    pub alarms: Vec<thalweg_monitor::alarm::Rule>,
    /// `[notify]`: … and to whom.
    pub notify: thalweg_monitor::alarm::NotifySettings,
    /// `[unattended]`: what follows a run that has ended.
    pub unattended: Unattended,
    /// Where emulated boards write every emitted hit; from the command line only.
    pub truth: Option<PathBuf>,
    /// Runs of it are taken one after another, by one program that goes on.
    pub(crate) is_served: bool,
    /// Of a replay: which sections were replaced, and by what.
    replaced: Option<replaced::Replaced>,
}

impl Configuration {
    /// Returns true if a board that is armed or running when a run begins was left so by a crash of this service: it has its boards to itself,
    /// and nobody is there to make them idle.
    pub(crate) fn has_boards_to_itself(&self) -> bool {
        self.is_served && self.unattended.follows_runs()
    }

    /// Returns true if this process hosts a unit.
    pub(crate) fn hosts(&self, unit: &UnitSettings) -> bool {
        self.node.is_none() || self.node == unit.node
    }

    /// Checks that a run with this end can reach it: a run that does not keep hits or events never records any. A run that also ends at a
    /// time always can.
    ///
    /// # Errors
    /// When it cannot, with what to write.
    pub fn check_end(&self, end: &EndWhen) -> Result<(), ConfigError> {
        if end.seconds.is_some() {
            return Ok(());
        }
        let limits = [
            ("hits", end.hits, &Table::OF_HITS[..]),
            ("events", end.events, &[Table::Events, Table::Fragments]),
        ];
        for (what, limit, tables) in limits {
            if let Some(limit) = limit.filter(|_| self.record.keeps_none_of(tables)) {
                return Err(self.invalid(format!(
                    "`{what} = {limit}`: the run would never end, because it ends when so many {what} are recorded, and none is \
                     kept; limit it by `seconds`, or add \"{what}\" to `tables` of [record]"
                )));
            }
        }
        Ok(())
    }

    /// The error that something in this file cannot be: with the line that the message names, as `[section]`, table "name" or `key`.
    pub(crate) fn invalid(&self, message: impl std::fmt::Display) -> ConfigError {
        let message = message.to_string();
        let (file, line) = match &self.replaced {
            Some(replaced) => replaced.place_of(&message, &self.file),
            None => (&*self.file, line::line_of(&self.text, &message)),
        };
        let report = match line {
            Some(line) => format!("line {line}: {message}"),
            None => message,
        };
        ConfigError::NotAllowed { file: file.to_owned(), report }
    }

    /// The same for one of its sources.
    pub(crate) fn invalid_source(
        &self,
        source: &SourceSettings,
        message: impl std::fmt::Display,
    ) -> ConfigError {
        self.invalid(format!("source \"{}\": {message}", source.head.name))
    }

    /// A file that the configuration names: paths in it are relative to its folder.
    pub(crate) fn beside(&self, file: &Path) -> PathBuf {
        self.file.parent().unwrap_or(Path::new("")).join(file)
    }

    /// The same for a run beside which unattended operation removes old runs: on a full disk it waits, and is ended
    /// from there where `on_full` says so.
    pub fn with_old_runs_removed(mut self) -> Configuration {
        if self.record.retention.is_some() {
            self.record.on_full = thalweg_record::OnFull::Pause;
        }
        self
    }

    /// The sources that give hits, with their formats: in the order of their numbers in the ledger.
    pub(crate) fn hit_sources(&self) -> impl Iterator<Item = (&SourceSettings, &dyn HitFormat)> {
        self.sources.iter().filter_map(|source| match &source.format {
            FormatSettings::Hits(format) => Some((source, &**format)),
            FormatSettings::Triggered(_) => None,
        })
    }

    /// The threads that read sources of hits, in the order of the first source of each, and which these are: with its number in the
    /// ledger.
    pub(crate) fn hit_readers(&self) -> Vec<(&str, Vec<(usize, &SourceSettings)>)> {
        let mut readers: Vec<(&str, Vec<(usize, &SourceSettings)>)> = Vec::new();
        for (number, (source, _)) in self.hit_sources().enumerate() {
            let name = source.head.reader();
            match readers.iter_mut().find(|(reader, _)| *reader == name) {
                Some((_, sources)) => sources.push((number, source)),
                None => readers.push((name, vec![(number, source)])),
            }
        }
        readers
    }

    /// The endpoint's settings of one of its sources, with files relative to the configuration's folder, and memory that other processes
    /// can read if units in these listen for it.
    pub(crate) fn located_endpoint(&self, source: &SourceSettings) -> thalweg_readout::Settings {
        let folder = self.file.parent().unwrap_or(Path::new("."));
        let mut endpoint = source.endpoint.clone();
        endpoint.url = endpoint.url.relative_to(folder);
        endpoint.continuations.iter_mut().for_each(|path| *path = folder.join(&*path));
        endpoint.is_shared = self.units.iter().any(UnitSettings::reads_shared_memory);
        endpoint
    }

    /// Returns true if a board of this run is asked what it is.
    pub(crate) fn asks_boards(&self) -> bool {
        self.sources.iter().any(|source| source.endpoint.url.control().is_some())
    }

    /// The channels of each source that gives hits, by its name.
    pub(crate) fn channel_ranges(&self) -> impl Iterator<Item = (&str, ChannelRange)> {
        self.hit_sources()
            .map(|(source, format)| (source.head.name.as_str(), ChannelRange::of(format)))
            .filter(|(_, range)| range.count > 0)
    }

    /// The first two sources that have a channel in common: the channel of a hit does not say then which of them it came from.
    pub(crate) fn shared_channels(&self) -> Option<[(&str, ChannelRange); 2]> {
        let ranges: Vec<_> = self.channel_ranges().collect();
        ranges.iter().enumerate().find_map(|(index, source)| {
            let other = ranges[..index].iter().find(|(_, taken)| taken.overlaps(source.1))?;
            Some([*other, *source])
        })
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When the file cannot be read, or says something that is not allowed: with file, line, key, what was found and
    /// what is allowed.
    pub fn read(file: &Path) -> Result<Configuration, ConfigError> {
        Configuration::parse(file, read_text(file, CONFIGURATION)?)
    }

    /// Reads a text as if it stood in `file`.
    ///
    /// # Errors
    /// As for [`Configuration::read`].
    pub fn parse(file: &Path, text: String) -> Result<Configuration, ConfigError> {
        let configuration = reader::configuration(file, &text)?;
        Ok(Configuration { text, ..configuration }.with_paths_beside())
    }

    /// Makes the paths in sections of other crates relative to the file, as [`Configuration::beside`] does.
    fn with_paths_beside(mut self) -> Configuration {
        let folder = self.beside(Path::new(""));
        self.busy.relative_to(&folder);
        self.notify.relative_to(&folder);
        if let Some(monitor) = &mut self.monitor {
            monitor.relative_to(&folder);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[run]\ntitle = \"t\"\n\n[[source]]\nname = \"a\"\nformat = \"abcd\"\nurl = \"file:///x.ade\"\ntick_ps = 1.953125\n";

    fn refused(text: &str) -> String {
        Configuration::parse(Path::new("run.toml"), text.to_owned()).expect_err("not allowed").to_string()
    }

    #[test]
    fn a_good_file_is_read_and_kept_as_it_was() {
        let configuration = Configuration::parse(Path::new("run.toml"), GOOD.to_owned()).expect("valid");
        assert_eq!(configuration.text, GOOD);
        assert_eq!(configuration.sources[0].head.name, "a");
    }

    #[test]
    fn sources_have_memory_that_other_processes_read_if_a_builder_unit_listens_for_it() {
        let is_shared = |listen: &str| {
            let unit = |name, kind| {
                format!("[[unit]]\nname = \"{name}\"\nkind = \"{kind}\"\nlisten = \"{listen}\"\n")
            };
            let text = format!("{GOOD}{}{}", unit("evm", "manager"), unit("bu", "builder"));
            let configuration = Configuration::parse(Path::new("run.toml"), text).expect("readable");
            configuration.located_endpoint(&configuration.sources[0]).memory().is_shared
        };
        assert!(is_shared("shm://bu"));
        assert!(!is_shared("tcp://127.0.0.1:7000"));
    }

    #[test]
    fn a_source_of_a_format_without_an_emulated_board_is_refused_at_emulate() {
        let error = refused(&GOOD.replace("file:///x.ade", "emulate://"));
        assert!(error.contains("source \"a\": there is no emulated board of format \"abcd\""), "{error}");
    }

    #[test]
    fn files_of_certificates_are_looked_for_beside_the_configuration() {
        let text = format!(
            "{GOOD}[busy]\ntls_ca = \"a.pem\"\n[notify]\ntls_ca = \"/b.pem\"\n[monitor]\ntls_certificate = \"c.pem\"\n"
        );
        let configuration = Configuration::parse(Path::new("lab/run.toml"), text).expect("valid");
        assert_eq!(configuration.busy.tls_ca, Some("lab/a.pem".into()));
        assert_eq!(configuration.notify.tls_ca, Some("/b.pem".into()));
        assert_eq!(configuration.monitor.expect("there").tls_certificate, Some("lab/c.pem".into()));
    }

    #[test]
    fn an_unknown_key_is_reported_with_line_and_what_is_allowed() {
        let message = refused(&GOOD.replace("tick_ps", "tik_ps"));
        for part in ["run.toml", "line 8", "tik_ps", "tick_ps", "block_bytes"] {
            assert!(message.contains(part), "{part} in {message}");
        }
    }

    #[test]
    fn a_wrong_type_is_reported_with_line_and_what_was_found() {
        let message = refused(&GOOD.replace("1.953125", "\"fast\""));
        for part in ["run.toml", "line 8", "fast"] {
            assert!(message.contains(part), "{part} in {message}");
        }
    }

    #[test]
    fn names_are_unique_and_sections_known() {
        assert!(
            refused(&format!("{GOOD}{}", &GOOD[GOOD.find("[[").expect("a source")..])).contains("unique")
        );
        assert!(refused(&format!("{GOOD}[recrod]\n")).contains("[record]"));
        assert!(refused("[run]\n").contains("[[source]]"));
    }

    #[test]
    fn damaged_files_are_refused_and_never_crash() {
        for cut in 0..GOOD.len() {
            let _ = Configuration::parse(Path::new("run.toml"), GOOD[..cut].to_owned());
            let mut bytes = GOOD.as_bytes().to_vec();
            for damage in [b'"', b'[', b'=', b'\n', 0, 0x7F] {
                bytes[cut] = damage;
                let _ =
                    Configuration::parse(Path::new("run.toml"), String::from_utf8_lossy(&bytes).into_owned());
            }
        }
    }

    #[test]
    fn the_schema_has_every_format() {
        let schema = json_schema().to_string();
        for format in thalweg_frontend::FORMATS {
            assert!(schema.contains(&format!("source of format \\\"{format}\\\"")), "{format}");
        }
    }
}
