//! Finds each crate's settings in the text of a configuration.
//!
//! ```text
//!  text ─► entries with their places ─┬─ known section ─► its room's settings
//!                                     └─ anything else ─► file, line, column, and what is allowed
//! ```

use std::path::Path;

use serde::de::DeserializeOwned;
use thalweg_frontend::format::{EmulateSettings, Format, FormatSettings, keys_of};
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::{ConfigError, Configuration, FollowTrigger, KEYS_OF_HITS, SourceHead, SourceSettings};

/// The configuration that a text says, but for the text itself.
///
/// # Errors
/// When it says something that is not allowed: with file, line, key, what was found and what is allowed.
pub(super) fn configuration(file: &Path, text: &str) -> Result<Configuration, ConfigError> {
    let configuration = part(file, text)?;
    if configuration.sources.is_empty() {
        return Err(Reader { file, text }.at(0, "no [[source]]: say where hits come from, as in\n[[source]]\nname = \"left\"\nformat = \"digitizer2\"\nurl = \"udp://127.0.0.1:51940\"".to_owned()));
    }
    Ok(configuration)
}

/// The same of a text that may be a part of a configuration only: what it does not say is as if a configuration did not say it.
///
/// # Errors
/// As for [`configuration`].
pub(super) fn part(file: &Path, text: &str) -> Result<Configuration, ConfigError> {
    let reader = Reader { file, text };
    let mut top = Entries(
        DeTable::parse(text).map_err(|error| reader.error(error))?.into_inner().into_iter().collect(),
    );
    let run = reader.section(top.take("run"))?;
    let order = reader.section(top.take("order"))?;
    let channels = reader.section(top.take("channels"))?;
    let channel = reader.tables("channel", top.take("channel"))?;
    let process = reader.process(&mut top)?;
    let ((trigger, has_trigger), follow, enable) = reader.trigger(top.take("trigger"))?;
    let busy = reader.section(top.take("busy"))?;
    let (has_build, (build, unit_rules)) = (top.has("build"), reader.build(top.take("build"))?);
    let slices = top.take("slices").map(|value| reader.value(value)).transpose()?;
    let filter = top.take("filter").map(|value| reader.value(value)).transpose()?;
    let units = reader.tables("unit", top.take("unit"))?;
    let threads = reader.section(top.take("threads"))?;
    let record = reader.section(top.take("record"))?;
    let ship = top.take("ship").map(|value| reader.value(value)).transpose()?;
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
                       [coincidence], [spectra], [[spectrum]], [trigger], [busy], [slices], [build], [filter], [[unit]], \
                       [threads], [record], [ship], [[control]], [[series]], [monitor], [[alarm]], [notify], [unattended]"
                .to_owned();
        return Err(reader.at(key.span().start, format!("unknown section `{}`; {allowed}", key.get_ref())));
    }
    Ok(Configuration {
        file: file.to_owned(),
        run,
        sources,
        order,
        channels,
        channel,
        process,
        trigger,
        has_trigger,
        follow,
        enable,
        busy,
        has_build,
        build,
        unit_rules,
        slices,
        filter,
        units,
        node: None,
        threads,
        record,
        ship,
        controls,
        series,
        monitor,
        alarms,
        notify,
        unattended,
        truth: None,
        is_served: false,
        replaced: None,
        text: String::new(),
    })
}

/// `[trigger]`, whether it has keys of its own, and the sections inside it.
type TriggerSections =
    ((thalweg_frontend::trigger::Settings, bool), Option<FollowTrigger>, Option<thalweg_readout::Switch>);

/// The value of a key, with its place in the text; `None` where the key is not there.
type Given<'t> = Option<Spanned<DeValue<'t>>>;

/// The entries of one table, with their places in the text.
struct Entries<'t>(Vec<(Spanned<std::borrow::Cow<'t, str>>, Spanned<DeValue<'t>>)>);

impl<'t> Entries<'t> {
    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key.get_ref() == name)
    }

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
        let keys = value.as_ref().and_then(|value| value.get_ref().as_table()).map_or(0, DeTable::len);
        let (trigger, [follow, enable]) = self.section_with(value, ["follow", "enable"])?;
        let has_own = keys > usize::from(follow.is_some()) + usize::from(enable.is_some());
        let follow = follow.map(|value| self.value(value)).transpose()?;
        Ok(((trigger, has_own), follow, enable.map(|value| self.value(value)).transpose()?))
    }

    /// Reads a section whose keys `inner` belong to others.
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

    /// Reads what is done with ordered hits: sections of its own, in the order of the path.
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

    /// Reads a section that may have several tables.
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
        let Some(value) = value else { return Ok(Vec::new()) };
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
        if source.is_emulated() && matches!(source.format, FormatSettings::Hits(_)) {
            let completed = source.emulated_board().and_then(|board| source.complete(&board.facts()));
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
            all.retain(|key| !KEYS_OF_HITS.contains(&key.as_str()));
            all.extend(keys_of::<thalweg_readout::Settings>());
            all.extend(allowed);
            let message = format!(
                "unknown key `{}` in a source of format \"{format}\"; allowed: {}; in a source of hits also {}",
                key.get_ref(),
                all.join(", "),
                KEYS_OF_HITS.join(", ")
            );
            return Err(self.at(key.span().start, message));
        }
        let table: DeTable<'t> = keys.0.into_iter().collect();
        let value = ValueDeserializer::from(Spanned::new(span, DeValue::Table(table)));
        format.read(value).map_err(|error| self.error(error))
    }
}
