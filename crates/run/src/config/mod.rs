//! The configuration file: one TOML file, deliberately the shape of the path.
//!
//! ```text
//!  text ─► tables with their places ─► each room's own settings ─► Configuration
//!                    └─ an error points at file, line and key, and says what is allowed
//! ```
//! Each room owns and checks its settings; here they are only found in the file. A `[[source]]` holds three kinds
//! of keys side by side: those of the run (`name`, `format`, …), of the endpoint, and of the format.

mod error;
mod line;
mod schema;

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thalweg_data::SourceId;
use thalweg_frontend::trigger::Kind;
use thalweg_monitor::state::EndWhen;
use thalweg_record::Table;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

pub use error::ConfigError;
pub use schema::json_schema;

use thalweg_frontend::format::{EmulateSettings, Format, FormatSettings, HitFormat, keys_of};
use thalweg_readout::links::{LinkPlan, LinkSettings};

use crate::channel_range::ChannelRange;
use crate::placement::ThreadSettings;
use crate::units::UnitSettings;

/// `[run]`: what the run is called and when it ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunSettings {
    /// A title, kept with the recording.
    pub title: String,
    /// Words about the run, kept with the recording.
    pub comment: String,
    /// What the nodes of one run have in common and those of another run do not, such as its number; a unit that was started with another
    /// identity is refused. Without it nodes are distinguished by their configuration only.
    pub identity: String,
    /// File whose first line is the key that the units of all nodes prove to each other that they have, relative to the configuration:
    /// at least 16 characters, such as the output of `openssl rand -hex 32`. Needed where a unit is reached by other hosts.
    pub key_file: Option<PathBuf>,
    /// The environment variable that has this key, in place of `key_file`.
    pub key_env: Option<String>,
    /// Stop after this many seconds, more than 0; without it, when the sources end or on a signal.
    pub seconds: Option<f64>,
    /// Stop when this many hits are recorded.
    pub hits: Option<u64>,
    /// Stop when this many events are recorded.
    pub events: Option<u64>,
}

impl RunSettings {
    /// When the run ends by itself.
    pub fn end(&self) -> EndWhen {
        EndWhen { seconds: self.seconds, hits: self.hits, events: self.events }
    }

    /// Makes it end at another time.
    pub(crate) fn set_end(&mut self, end: EndWhen) {
        EndWhen { seconds: self.seconds, hits: self.hits, events: self.events } = end;
    }

    /// Whether the run can end as asked.
    ///
    /// # Errors
    /// Which value cannot be used, and what would.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.seconds {
            Some(seconds) if seconds > 0.0 && seconds.is_finite() => Ok(()),
            Some(seconds) => {
                Err(format!("`seconds = {seconds}` must be above 0; leave it out to run until stopped"))
            }
            None => Ok(()),
        }
    }
}

/// The keys of a `[[source]]` that are the run's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceHead {
    /// A short name, unique in the file; used in the ledger, in metrics and on the page.
    pub name: String,
    /// What the board speaks.
    pub format: &'static Format,
    /// Threads that decode this source; 0 decodes on the receiving thread.
    #[serde(default)]
    pub workers: usize,
    /// The thread that reads this source of hits: those with the same word share one, which has this name. Without it each source has a
    /// thread of its own, named like the source.
    #[serde(default)]
    pub reader: Option<String>,
    /// How far back in time a hit of this source may lie, picoseconds; without it `[order] disorder_ps`, and for
    /// files their whole length.
    #[serde(default)]
    pub disorder_ps: Option<u64>,
    /// Faults put between endpoint and framing, for tests of the system.
    #[serde(default)]
    pub faults: Option<thalweg_readout::FaultSettings>,
    /// Share of an emulated board's datagrams that are dropped before they are sent, by its seed.
    #[serde(default)]
    pub loss: f64,
}

impl SourceHead {
    /// The name of the thread that reads this source of hits.
    pub(crate) fn reader(&self) -> &str {
        self.reader.as_deref().unwrap_or(&self.name)
    }
}

/// `[trigger.follow]`: emulated boards answer what another board, real or replayed, is seen to answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FollowTrigger {
    /// The `[[source]]` whose first board leads.
    pub source: String,
    /// Bits of its trigger number, 1 to 64; it wraps there.
    #[serde(default = "follow_bits")]
    pub trigger_bits: u32,
    /// One count of its time, picoseconds; without it the time of arrival is taken. Not of RECBE, Belle II and ADC-SiTCP boards,
    /// whose headers have no time that goes on.
    #[serde(default)]
    pub tick_ps: Option<f64>,
    /// Most missing numbers in a row that are filled in; a wider step is a reset.
    #[serde(default = "follow_gap")]
    pub longest_gap: u64,
}

fn follow_bits() -> u32 {
    32
}

fn follow_gap() -> u64 {
    1000
}

/// One `[[source]]`, every key in its room.
#[derive(Clone, Debug)]
pub struct SourceSettings {
    /// The run's keys.
    pub head: SourceHead,
    /// The endpoint's keys.
    pub endpoint: thalweg_readout::Settings,
    /// The format's keys.
    pub format: FormatSettings,
    /// `[source.emulate]`: the boards behind an `emulate://` URL.
    pub emulate: Option<EmulateSettings>,
}

impl SourceSettings {
    /// The keys that this source may have and that can help against its losses, and `dumps` where its format keeps some. What
    /// is set already, or has no effect on such a URL, is left out.
    pub(crate) fn keys_for_advice(&self) -> Vec<String> {
        let mut keys = keys_of::<SourceHead>();
        keys.extend(keys_of::<thalweg_readout::Settings>());
        keys.extend(self.head.format.keys());
        let has_socket = !matches!(self.endpoint.url.scheme(), "file" | "pcap");
        let has_part = matches!(&self.format, FormatSettings::Hits(format) if format.has_set("part"));
        keys.retain(|key| match key.as_str() {
            "receive_buffer_bytes" => has_socket,
            "part" => !has_part,
            _ => true,
        });
        if matches!(self.format, FormatSettings::Triggered(_)) {
            keys.push("dumps".to_owned());
        }
        keys
    }

    /// Whether its sender can say what was in the datagrams that did not come: an emulated one of this process. Where bits are flipped on
    /// the way it cannot, for nobody can tell which hits became others.
    pub(crate) fn asks_sender(&self) -> bool {
        let flips = self.head.faults.as_ref().is_some_and(|faults| faults.bit_flip > 0.0);
        self.endpoint.url.scheme() == "emulate" && !flips
    }

    /// Of a triggered source, its links: those whose first board is `first_source`.
    pub(crate) fn links(&self, first_source: SourceId) -> Option<LinkSettings<'_>> {
        let FormatSettings::Triggered(boards) = &self.format else { return None };
        let emulated = match &self.emulate {
            Some(EmulateSettings::Triggered(boards)) => Some(&**boards),
            _ => None,
        };
        Some(LinkSettings { endpoint: &self.endpoint, boards: &**boards, emulated, first_source })
    }

    /// Of a triggered source, how many links and boards it has.
    ///
    /// # Errors
    /// What does not fit together, in words.
    pub(crate) fn link_plan(&self) -> Result<Option<LinkPlan>, String> {
        self.links(SourceId(0)).map(|links| links.plan()).transpose()
    }
}

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
    /// `[trigger.follow]`.
    pub follow: Option<FollowTrigger>,
    /// `[trigger.enable]`: the register that lets a real trigger through while data are taken.
    pub enable: Option<thalweg_readout::Switch>,
    /// `[busy]`: how a real trigger is told to wait.
    pub busy: thalweg_readout::busy::BusySettings,
    /// `[build]`.
    pub build: thalweg_build::Settings,
    /// `[build.units]`.
    pub unit_rules: thalweg_build::unit::Settings,
    /// `[slices]`: what takes the place of triggers where there are none.
    pub slices: Option<thalweg_build::slices::Settings>,
    /// `[[unit]]`: building over several units.
    pub units: Vec<UnitSettings>,
    /// The node that this process is; from the command line only. Without it, this process is all of them.
    pub node: Option<String>,
    /// `[threads]`: on which cores the run's threads run.
    pub threads: ThreadSettings,
    /// `[record]`.
    pub record: thalweg_record::Settings,
    /// `[[control]]`: devices that are set for a run, and read in it, …
    pub controls: Vec<thalweg_readout::DeviceSettings>,
    /// `[[series]]`: … and what is read of them.
    pub series: Vec<crate::slow_control::SeriesSettings>,
    /// `[monitor]`: where the page is served, if it is.
    pub monitor: Option<thalweg_monitor::Settings>,
    /// `[[alarm]]`: what is told when something goes wrong, …
    pub alarms: Vec<thalweg_monitor::alarm::Rule>,
    /// `[notify]`: … and to whom.
    pub notify: thalweg_monitor::alarm::NotifySettings,
    /// `[unattended]`: what follows a run that has ended.
    pub unattended: crate::serve::Unattended,
    /// Where emulated boards write every emitted hit; from the command line only.
    pub truth: Option<PathBuf>,
}

impl Configuration {
    /// Whether this process hosts a unit.
    pub(crate) fn hosts(&self, unit: &UnitSettings) -> bool {
        self.node.is_none() || self.node == unit.node
    }

    /// How often emulated boards are triggered; where a real board decides, as often as can be.
    pub(crate) fn trigger_rate_hz(&self) -> f64 {
        match (&self.follow, self.trigger.program) {
            (None, Kind::Constant | Kind::Bursts | Kind::Poisson) => self.trigger.rate_hz,
            (_, Kind::Times) | (Some(_), _) => f64::MAX,
        }
    }

    /// Whether a run that ends there can end: of hits or events that are not kept, none is ever recorded. One that ends at a time,
    /// too, always does.
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
        let report = match line::line_of(&self.text, &message) {
            Some(line) => format!("line {line}: {message}"),
            None => message,
        };
        ConfigError::NotAllowed { file: self.file.clone(), report }
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

    /// The same for a run beside which a [`UnattendedOperation`](crate::serve::UnattendedOperation) makes room: on a full disk it waits, and is ended
    /// from there where `on_full` says so.
    pub fn with_room_made(mut self) -> Configuration {
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
        let text = std::fs::read_to_string(file)
            .map_err(|cause| ConfigError::Unreadable { file: file.to_owned(), cause })?;
        Configuration::parse(file, text)
    }

    /// Reads a text as if it stood in `file`.
    ///
    /// # Errors
    /// As for [`Configuration::read`].
    pub fn parse(file: &Path, text: String) -> Result<Configuration, ConfigError> {
        let reader = Reader { file, text: &text };
        let mut top = Entries(
            DeTable::parse(&text).map_err(|error| reader.error(error))?.into_inner().into_iter().collect(),
        );
        let run = reader.section(top.take("run"))?;
        let order = reader.section(top.take("order"))?;
        let channels = reader.section(top.take("channels"))?;
        let channel = reader.tables("channel", top.take("channel"))?;
        let process = reader.process(&mut top)?;
        let (trigger, follow, enable) = reader.trigger(top.take("trigger"))?;
        let busy = reader.section(top.take("busy"))?;
        let (build, unit_rules) = reader.build(top.take("build"))?;
        let slices = top.take("slices").map(|value| reader.value(value)).transpose()?;
        let units = reader.tables("unit", top.take("unit"))?;
        let threads = reader.section(top.take("threads"))?;
        let record = reader.section(top.take("record"))?;
        let controls = reader.tables("control", top.take("control"))?;
        let series = reader.tables("series", top.take("series"))?;
        let monitor = top.take("monitor").map(|value| reader.value(value)).transpose()?;
        let alarms = reader.tables("alarm", top.take("alarm"))?;
        let notify = reader.section(top.take("notify"))?;
        let unattended = reader.section(top.take("unattended"))?;
        let sources = reader.sources(top.take("source"))?;
        if let Some((key, _)) = top.0.first() {
            let allowed =
                "allowed here: [run], [[source]], [order], [channels], [[channel]], [clocks], [[stage]], [[cut]], [[polygon]], \
                           [coincidence], [spectra], [[spectrum]], [trigger], [busy], [slices], [build], [[unit]], \
                           [threads], [record], [[control]], [[series]], [monitor], [[alarm]], [notify], [unattended]"
                    .to_owned();
            return Err(
                reader.at(key.span().start, format!("unknown section `{}`; {allowed}", key.get_ref()))
            );
        }
        let configuration = Configuration {
            file: file.to_owned(),
            run,
            sources,
            order,
            channels,
            channel,
            process,
            trigger,
            follow,
            enable,
            busy,
            build,
            unit_rules,
            slices,
            units,
            node: None,
            threads,
            record,
            controls,
            series,
            monitor,
            alarms,
            notify,
            unattended,
            truth: None,
            text: String::new(),
        };
        Ok(Configuration { text, ..configuration }.with_paths_beside())
    }

    /// Takes the paths in sections of other rooms as [`Configuration::beside`] does.
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

/// `[trigger]` and the sections inside it.
type TriggerSections =
    (thalweg_frontend::trigger::Settings, Option<FollowTrigger>, Option<thalweg_readout::Switch>);

/// The value of a key, with its place in the text; `None` where the key is not there.
type Given<'t> = Option<Spanned<DeValue<'t>>>;

/// The entries of one table, with their places in the text.
struct Entries<'t>(Vec<(Spanned<std::borrow::Cow<'t, str>>, Spanned<DeValue<'t>>)>);

impl<'t> Entries<'t> {
    fn take(&mut self, name: &str) -> Given<'t> {
        let place = self.0.iter().position(|(key, _)| key.get_ref() == name)?;
        Some(self.0.remove(place).1)
    }

    fn split(self, names: &[String]) -> (Entries<'t>, Entries<'t>) {
        let (own, rest) =
            self.0.into_iter().partition(|(key, _)| names.iter().any(|name| name == key.get_ref()));
        (Entries(own), Entries(rest))
    }
}

struct Reader<'t> {
    file: &'t Path,
    text: &'t str,
}

impl<'t> Reader<'t> {
    fn error(&self, mut error: toml::de::Error) -> ConfigError {
        error.set_input(Some(self.text));
        ConfigError::NotAllowed {
            file: self.file.to_owned(),
            report: error.to_string().trim_end().to_owned(),
        }
    }

    fn at(&self, byte: usize, message: String) -> ConfigError {
        let before = &self.text[..byte.min(self.text.len())];
        let (line, column) =
            (before.matches('\n').count() + 1, before.len() - before.rfind('\n').map_or(0, |n| n + 1) + 1);
        ConfigError::NotAllowed {
            file: self.file.to_owned(),
            report: format!("line {line}, column {column}: {message}"),
        }
    }

    fn value<T: DeserializeOwned>(&self, value: Spanned<DeValue<'t>>) -> Result<T, ConfigError> {
        T::deserialize(ValueDeserializer::from(value)).map_err(|error| self.error(error))
    }

    fn section<T: DeserializeOwned + Default>(&self, value: Given<'t>) -> Result<T, ConfigError> {
        value.map_or_else(|| Ok(T::default()), |value| self.value(value))
    }

    /// `[build]` and, inside it, `[build.units]`.
    fn build(
        &self,
        value: Given<'t>,
    ) -> Result<(thalweg_build::Settings, thalweg_build::unit::Settings), ConfigError> {
        let (build, [units]) = self.section_with(value, ["units"])?;
        Ok((build, self.section(units)?))
    }

    /// `[trigger]` and, inside it, `[trigger.follow]` and `[trigger.enable]`.
    fn trigger(&self, value: Given<'t>) -> Result<TriggerSections, ConfigError> {
        let (trigger, [follow, enable]) = self.section_with(value, ["follow", "enable"])?;
        let follow = follow.map(|value| self.value(value)).transpose()?;
        Ok((trigger, follow, enable.map(|value| self.value(value)).transpose()?))
    }

    /// A section of which the keys `inner` belong to others.
    fn section_with<T: DeserializeOwned + Default, const N: usize>(
        &self,
        value: Given<'t>,
        inner: [&str; N],
    ) -> Result<(T, [Given<'t>; N]), ConfigError> {
        let Some(value) = value else { return Ok((T::default(), inner.map(|_| None))) };
        let span = value.span();
        let DeValue::Table(table) = value.into_inner() else {
            return Err(self.at(span.start, "this section is a table of keys".to_owned()));
        };
        let mut entries = Entries(table.into_iter().collect());
        let inner = inner.map(|name| entries.take(name));
        Ok((self.entries(entries, span)?, inner))
    }

    /// What is done with ordered hits: sections of its own, in the order of the path.
    fn process(&self, top: &mut Entries<'t>) -> Result<thalweg_analysis::process::Settings, ConfigError> {
        Ok(thalweg_analysis::process::Settings {
            stages: self.tables("stage", top.take("stage"))?,
            clocks: self.section(top.take("clocks"))?,
            cuts: self.tables("cut", top.take("cut"))?,
            polygons: self.tables("polygon", top.take("polygon"))?,
            coincidence: top.take("coincidence").map(|value| self.value(value)).transpose()?,
            spectra: self.section(top.take("spectra"))?,
            own_spectra: self.tables("spectrum", top.take("spectrum"))?,
            pulses: self.section(top.take("pulses"))?,
        })
    }

    /// Tables of which there may be several.
    fn tables<T: DeserializeOwned>(&self, name: &str, value: Given<'t>) -> Result<Vec<T>, ConfigError> {
        let Some(value) = value else { return Ok(Vec::new()) };
        let span = value.span();
        let DeValue::Array(tables) = value.into_inner() else {
            let message = format!("write [[{name}]] with two brackets: there may be several");
            return Err(self.at(span.start, message));
        };
        tables.into_iter().map(|table| self.value(table)).collect()
    }

    fn entries<T: DeserializeOwned>(
        &self,
        entries: Entries<'t>,
        span: std::ops::Range<usize>,
    ) -> Result<T, ConfigError> {
        let table: DeTable<'t> = entries.0.into_iter().collect();
        self.value(Spanned::new(span, DeValue::Table(table)))
    }

    fn sources(&self, value: Given<'t>) -> Result<Vec<SourceSettings>, ConfigError> {
        let missing = || {
            self.at(0, "no [[source]]: say where hits come from, as in\n[[source]]\nname = \"left\"\nformat = \"digitizer2\"\nurl = \"udp://127.0.0.1:51940\"".to_owned())
        };
        let value = value.ok_or_else(missing)?;
        let span = value.span();
        let DeValue::Array(tables) = value.into_inner() else {
            return Err(
                self.at(span.start, "write [[source]] with two brackets: there may be several".to_owned())
            );
        };
        let mut sources: Vec<SourceSettings> = Vec::new();
        for table in tables {
            let place = table.span();
            let source = self.source(table)?;
            if sources.iter().any(|other| other.head.name == source.head.name) {
                return Err(self.at(
                    place.start,
                    format!("two sources are called \"{}\"; names are unique", source.head.name),
                ));
            }
            sources.push(source);
        }
        Ok(sources)
    }

    fn source(&self, value: Spanned<DeValue<'t>>) -> Result<SourceSettings, ConfigError> {
        let span = value.span();
        let DeValue::Table(table) = value.into_inner() else {
            return Err(self.at(span.start, "a [[source]] is a table of keys".to_owned()));
        };
        let mut entries = Entries(table.into_iter().collect());
        let emulate = entries.take("emulate");
        let (head, rest) = entries.split(&keys_of::<SourceHead>());
        let (endpoint, format_keys) = rest.split(&keys_of::<thalweg_readout::Settings>());
        let head: SourceHead = self.entries(head, span.clone())?;
        let endpoint: thalweg_readout::Settings = self.entries(endpoint, span.clone())?;
        let start = span.start;
        let format = self.format(head.format, format_keys, span)?;
        let emulate = emulate.map(|value| self.emulate(head.format, value)).transpose()?;
        let mut source = SourceSettings { head, endpoint, format, emulate };
        if source.endpoint.url.scheme() == "emulate" {
            let facts = source.emulated_board().facts();
            let completed = crate::boards::complete(&mut source, &facts);
            completed.map_err(|error| self.at(start, format!("source \"{}\": {error}", source.head.name)))?;
        }
        Ok(source)
    }

    fn emulate(&self, format: &Format, value: Spanned<DeValue<'t>>) -> Result<EmulateSettings, ConfigError> {
        let start = value.span().start;
        let read = format.read_emulated(ValueDeserializer::from(value)).ok_or_else(|| {
            let message =
                format!("there is no emulated board of format \"{format}\"; take [source.emulate] out");
            self.at(start, message)
        })?;
        read.map_err(|error| self.error(error))
    }

    fn format(
        &self,
        format: &Format,
        keys: Entries<'t>,
        span: std::ops::Range<usize>,
    ) -> Result<FormatSettings, ConfigError> {
        let allowed = format.keys();
        if let Some((key, _)) =
            keys.0.iter().find(|(key, _)| !allowed.iter().any(|name| name == key.get_ref()))
        {
            let mut all = keys_of::<SourceHead>();
            all.extend(keys_of::<thalweg_readout::Settings>());
            all.extend(allowed);
            let message = format!(
                "unknown key `{}` in a source of format \"{format}\"; allowed: {}",
                key.get_ref(),
                all.join(", ")
            );
            return Err(self.at(key.span().start, message));
        }
        let table: DeTable<'t> = keys.0.into_iter().collect();
        let value = ValueDeserializer::from(Spanned::new(span, DeValue::Table(table)));
        format.read(value).map_err(|error| self.error(error))
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
    fn an_unknown_key_is_told_with_line_and_what_is_allowed() {
        let message = refused(&GOOD.replace("tick_ps", "tik_ps"));
        for part in ["run.toml", "line 8", "tik_ps", "tick_ps", "block_bytes"] {
            assert!(message.contains(part), "{part} in {message}");
        }
    }

    #[test]
    fn a_wrong_type_is_told_with_line_and_what_was_found() {
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
