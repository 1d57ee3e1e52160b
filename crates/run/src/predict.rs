//! Predicts what a configuration asks of links, switch, host and disk, from its sources and a description of the network.
//!
//! ```text
//!  run.toml: [[source]], [trigger], [record], [[unit]] ─┐
//!                                                       ├─► Plan ─► chain of hops
//!  network.toml: rates and depths, what boards send  ───┘   └ what was taken as true without having been said
//! ```
//! Emulated boards report what they send. For real boards only the network's file can state it.

use std::path::Path;

use thalweg_data::SourceId;
use thalweg_frontend::format::{FormatSettings, SelfTriggeredSettings};
use thalweg_frontend::self_triggered::Outgoing;
use thalweg_frontend::trigger::{Kind, Settings as TriggerSettings};
use thalweg_qualify::host::RECEIVE_BUFFER_BYTES;
use thalweg_qualify::predict::chain::{Carrier, Emission, Network, Plan, Source, StatedSource};
use thalweg_readout::answer_sizes;
use thalweg_record::{Compression, Table};

use crate::config::{ConfigError, Configuration, SourceSettings, UnitKind, read_text};

/// Answers of a board that stand for all that it sends.
const ANSWERS: u64 = 256;
/// Datagrams of a board that stand for all that it sends, and the board time after which no more are waited for.
const DATAGRAMS: usize = 256;
const LONGEST_BOARD_TIME_NS: u64 = 2_000_000_000;
const BOARD_STEP_NS: u64 = 1_000_000;
const OUTGOING_BYTES: usize = 1 << 20;

/// Reads the description of a network.
///
/// # Errors
/// When the file cannot be read, or says something that is not allowed: with file, line, key and what is.
pub fn read_network(file: &Path) -> Result<Network, ConfigError> {
    let text = read_text(file, "the description of a network (docs/host/prediction.md)")?;
    let refused = |report: String| ConfigError::NotAllowed { file: file.to_owned(), report };
    let mut network: Network =
        toml::from_str(&text).map_err(|error| refused(error.to_string().trim_end().to_owned()))?;
    network.check().map_err(|error| refused(error.to_string()))?;
    if let Some(trigger) = &mut network.trigger
        && let Some(times) = &trigger.times_file
    {
        let path = file.parent().unwrap_or(Path::new("")).join(times);
        let text = std::fs::read_to_string(&path);
        let failed = |cause| refused(format!("[trigger] times_file: {}: {cause}", path.display()));
        trigger.times = Some(text.map_err(failed)?);
    }
    Ok(network)
}

/// Returns what a run of this configuration asks of a network; with another rate of triggers where one is given.
///
/// # Errors
/// When it is not known what a source sends or what triggers it, with what to write where.
pub fn plan(
    configuration: &Configuration,
    network: &Network,
    rate_hz: Option<f64>,
) -> Result<Plan, ConfigError> {
    let mut network = network.clone();
    for stated in &network.sources {
        if !configuration.sources.iter().any(|source| source.head.name == stated.name) {
            let names: Vec<&str> =
                configuration.sources.iter().map(|source| source.head.name.as_str()).collect();
            let (name, names) = (&stated.name, names.join("\", \""));
            return Err(configuration.invalid(format!(
                "the network describes a source \"{name}\", and this configuration has \"{names}\""
            )));
        }
    }
    let mut assumptions = vec!["each board has a link of its own to the switch".to_owned()];
    let mut sources = Vec::new();
    for source in &configuration.sources {
        let stated = network.sources.iter().find(|stated| stated.name == source.head.name);
        let sent = sent(source, stated).map_err(|words| configuration.invalid_source(source, words))?;
        sources.push(sent);
    }
    let triggers = triggers(configuration, &network, &sources, rate_hz)?;
    buffers(configuration, &mut network, &mut assumptions);
    let recorded_copies = recorded_copies(configuration);
    if recorded_copies > 0 && network.build.kept.is_none() {
        let twice = if recorded_copies > 1 { ", twice, because `raw` is kept, too" } else { "" };
        assumptions.push(format!(
            "every payload byte is recorded{twice}; [build] `kept` would say another fraction"
        ));
    }
    if configuration.record.compression != Compression::None {
        assumptions.push(
            "what compression leaves is not known, and is taken as all of it; [build] `kept` would say it"
                .to_owned(),
        );
    }
    let builders = configuration.units.iter().filter(|unit| unit.kind == UnitKind::Builder).count();
    if builders > 0 {
        assumptions.push(
            "[host] is all readout units together; [build] and [disk] are those of each builder unit"
                .to_owned(),
        );
    }
    Ok(Plan {
        triggers,
        sources,
        network,
        builders: builders as u32,
        recorded_copies,
        has_host: true,
        assumptions,
    })
}

/// Returns what triggers the boards: as the network's file says, or else the configuration.
fn triggers(
    configuration: &Configuration,
    network: &Network,
    sources: &[Source],
    rate_hz: Option<f64>,
) -> Result<TriggerSettings, ConfigError> {
    let mut triggers = match &network.trigger {
        Some(trigger) => trigger.clone(),
        None => configuration.trigger_settings()?,
    };
    let is_triggered = sources.iter().any(|source| source.emission == Emission::Triggered);
    let is_stated = network.trigger.is_some() || rate_hz.is_some() || states_trigger(configuration);
    if is_triggered && !is_stated {
        return Err(configuration.invalid(
            "nothing says how often the boards are triggered: write [trigger] with `rate_hz` into the network's file (--network), \
             or give --rate-hz",
        ));
    }
    if let Some(rate_hz) = rate_hz {
        if !is_triggered || triggers.program == Kind::Times {
            return Err(configuration.invalid(
                "--rate-hz is for triggers with a rate, and these have none: leave it out, or change `program` of [trigger]",
            ));
        }
        triggers.rate_hz = rate_hz;
    }
    triggers.check().map_err(|error| configuration.invalid(error))?;
    Ok(triggers)
}

/// Returns true if the configuration says what triggers its boards: it has the section, or emulates boards, which are triggered by default.
/// Boards that follow a real board have its rate.
fn states_trigger(configuration: &Configuration) -> bool {
    let is_emulated = |source: &SourceSettings| source.is_emulated();
    let tables = configuration.text.parse::<toml::Table>();
    let has_section = tables.is_ok_and(|tables| tables.contains_key("trigger"));
    configuration.follow.is_none() && (has_section || configuration.sources.iter().any(is_emulated))
}

/// Returns what the boards of a source send, and how.
///
/// # Errors
/// Where nothing says it, with what to write where.
pub(crate) fn sent(source: &SourceSettings, stated: Option<&StatedSource>) -> Result<Source, String> {
    let links = links(source)?;
    let carrier = if source.gives_streams() { Carrier::Stream } else { Carrier::Datagrams };
    let name = source.head.name.clone();
    if let Some(StatedSource { payload_bytes, rate_hz, .. }) = stated {
        let emission = match rate_hz {
            Some(rate_hz) => Emission::Free { rate_hz: *rate_hz, hits: 1.0 },
            None => Emission::Triggered,
        };
        return Ok(Source { name, links, carrier, emission, answers: vec![vec![*payload_bytes]] });
    }
    let is_described = source.emulate.is_some() || source.is_emulated();
    match (&source.format, source.links(SourceId(0))) {
        (FormatSettings::Triggered(_), Some(settings)) if is_described => {
            let mut answers = answer_sizes(&settings, ANSWERS)?;
            answers.sort_unstable();
            if answers.first() == answers.last() {
                answers.truncate(1);
            }
            Ok(Source { name, links, carrier, emission: Emission::Triggered, answers })
        }
        (FormatSettings::Hits(_), _) if is_described => {
            let (answers, rate_hz, hits) = board_datagrams(&*source.emulated_board()?)?;
            Ok(Source { name, links, carrier, emission: Emission::Free { rate_hz, hits }, answers })
        }
        _ => Err(format!(
            "nothing says what its boards send: write into the network's file (--network)\n[[source]]\nname = \"{name}\"\n\
             payload_bytes = 1024   # of each board at a trigger; with `rate_hz`, so often by itself"
        )),
    }
}

/// Returns how many boards a source has, each on a link of its own.
///
/// # Errors
/// What does not fit together, in words.
pub(crate) fn links(source: &SourceSettings) -> Result<u32, String> {
    match source.link_plan()? {
        Some(plan) => Ok(plan.boards() as u32),
        None => Ok(source.endpoint.url.endpoints().len() as u32),
    }
}

/// The datagrams of a self-triggered board: their sizes, how many a second, and hits in each.
fn board_datagrams(settings: &dyn SelfTriggeredSettings) -> Result<(Vec<Vec<u32>>, f64, f64), String> {
    if settings.is_unlimited() {
        return Err(
            "its boards send as fast as they are read, and so have no rate; write `pace = \"real-time\"`"
                .to_owned(),
        );
    }
    let mut board = settings.steady().board().map_err(|error| error.to_string())?;
    board.arm().and_then(|()| board.start(0)).map_err(|error| error.to_string())?;
    let (mut out, mut sizes, mut now_ns) = (Outgoing::new(OUTGOING_BYTES), Vec::new(), 0);
    while sizes.len() < DATAGRAMS && now_ns < LONGEST_BOARD_TIME_NS {
        now_ns += BOARD_STEP_NS;
        while board.produce(now_ns, &mut out) {
            sizes.extend_from_slice(out.lengths());
            out.clear();
        }
        sizes.extend_from_slice(out.lengths());
        out.clear();
    }
    let (hits, count) = (board.totals().hits as f64, sizes.len() as f64);
    if hits == 0.0 {
        return Err("its emulated board has given no hit within two seconds; give it a `rate_hz`".to_owned());
    }
    let answers = sizes.into_iter().map(|size| vec![size]).collect();
    Ok((answers, count * 1e9 / now_ns as f64, (hits / count).max(1.0)))
}

/// Buffers that the configuration says, where the network does not.
fn buffers(configuration: &Configuration, network: &mut Network, assumptions: &mut Vec<String>) {
    let sockets = configuration.sources.iter().filter(|source| !source.gives_streams());
    let asked = |source: &SourceSettings| {
        let each = source.endpoint.receive_buffer_bytes.map_or(RECEIVE_BUFFER_BYTES, u64::from);
        each * source.endpoint.url.endpoints().len() as u64
    };
    let socket_bytes: u64 = sockets.map(asked).sum();
    if network.host.receive_buffer_bytes.is_none() && socket_bytes > 0 {
        assumptions.push(format!(
            "sockets hold as many payload bytes as are asked for, {:.1} MB, one socket's capacity being free for another's datagrams",
            socket_bytes as f64 * 1e-6
        ));
        network.host.receive_buffer_bytes = Some(socket_bytes as f64);
    }
    if network.build.buffer_bytes.is_none() {
        let memory = |source: &SourceSettings| source.endpoint.memory_bytes();
        let unit = configuration.units.iter().find(|unit| unit.kind == UnitKind::Builder);
        let bytes = match unit {
            Some(unit) => unit.memory_bytes,
            None => configuration.sources.iter().map(memory).sum(),
        };
        assumptions.push(format!(
            "a builder has the `memory_bytes` of the configuration for what waits, {:.1} MB, and fills its blocks",
            bytes as f64 * 1e-6
        ));
        network.build.buffer_bytes = Some(bytes as f64);
    }
}

/// Returns how often the payload is written: as hits or fragments, and as raw bytes.
fn recorded_copies(configuration: &Configuration) -> u32 {
    let keeps = |table| configuration.record.keeps(table);
    let is_built = configuration.sources.iter().any(|source| match &source.format {
        FormatSettings::Hits(_) => keeps(Table::Hits),
        FormatSettings::Triggered(_) => keeps(Table::Fragments),
    });
    u32::from(is_built) + u32::from(keeps(Table::Raw))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(text: &str) -> Configuration {
        Configuration::parse(Path::new("run.toml"), text.to_owned()).expect("it is valid")
    }

    fn refused(text: &str, network: &Network) -> String {
        plan(&configuration(text), network, None).expect_err("something is missing").to_string()
    }

    const CAMERA: &str = "[[source]]\nname = \"camera\"\nformat = \"fragment\"\nurl = \"emulate://\"\nboards = 265\n\
                          receive_buffer_bytes = 1000000\n[source.emulate]\npayload_bytes = 1000\n[trigger]\nrate_hz = 500\n";
    const BOARDS: &str = "[[source]]\nname = \"cdc\"\nformat = \"sitcp\"\nurl = \"tcp://192.168.10.{16..120}:24\"\n\
                          profile = \"recbe\"\nnamed_by = \"connection\"\n";

    #[test]
    fn emulated_boards_are_asked_what_they_send() {
        let plan = plan(&configuration(CAMERA), &Network::default(), None).expect("all is said");
        let camera = &plan.sources[0];
        assert_eq!(
            (camera.links, camera.carrier, camera.emission),
            (265, Carrier::Datagrams, Emission::Triggered)
        );
        // A header of 40 bytes stands before the payload.
        assert_eq!(camera.answers, [[1040]]);
        assert_eq!((plan.triggers.rate_hz, plan.network.host.receive_buffer_bytes), (500.0, Some(1e6)));
        assert_eq!((plan.builders, plan.recorded_copies), (0, 1));
        let detector = CAMERA
            .replace("265", "105")
            .replace("\"fragment\"", "\"sitcp\"\nprofile = \"recbe\"")
            .replace("payload_bytes = 1000", "hits = 41.0");
        let plan = super::plan(&configuration(&detector), &Network::default(), None).expect("all is said");
        let cdc = &plan.sources[0];
        let mean =
            cdc.answers.iter().flatten().map(|size| f64::from(*size)).sum::<f64>() / cdc.answers.len() as f64;
        assert!(
            cdc.carrier == Carrier::Stream && cdc.answers.len() > 1 && (340.0..420.0).contains(&mean),
            "{mean}"
        );
    }

    #[test]
    fn self_triggered_boards_send_by_themselves_what_their_rate_makes() {
        let text = "[[source]]\nname = \"a\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\n[source.emulate]\nchannels = 16\nrate_hz = 100_000\n\
                    [record]\ntables = [\"hits\", \"raw\"]\n";
        let plan = plan(&configuration(text), &Network::default(), None).expect("all is said");
        let Emission::Free { rate_hz, hits } = plan.sources[0].emission else { panic!("{plan:?}") };
        assert!((rate_hz * hits / 1.6e6 - 1.0).abs() < 0.1, "{rate_hz} {hits}");
        assert!(plan.sources[0].answers.iter().flatten().any(|size| *size > 8000), "{plan:?}");
        assert_eq!(plan.recorded_copies, 2);
    }

    #[test]
    fn real_boards_need_to_be_described_and_triggered() {
        let words = refused(BOARDS, &Network::default());
        assert!(words.contains("name = \"cdc\"") && words.contains("payload_bytes"), "{words}");
        let stated = |rate_hz| StatedSource { name: "cdc".to_owned(), payload_bytes: 392, rate_hz };
        let network = Network { sources: vec![stated(None)], ..Network::default() };
        let words = refused(BOARDS, &network);
        assert!(words.contains("[trigger]") && words.contains("rate_hz"), "{words}");
        let free = Network { sources: vec![stated(Some(100.0))], ..Network::default() };
        let plan = plan(&configuration(BOARDS), &free, None).expect("all is said");
        assert_eq!((plan.sources[0].links, plan.sources[0].carrier), (105, Carrier::Stream));
        let other = StatedSource { name: "cdd".to_owned(), ..stated(None) };
        let words = refused(BOARDS, &Network { sources: vec![other], ..Network::default() });
        assert!(words.contains("\"cdd\"") && words.contains("has \"cdc\""), "{words}");
    }

    #[test]
    fn a_network_that_cannot_be_is_refused_with_line_and_key() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("network.toml");
        for (text, words) in [
            ("[switch]\noutput_rate = \"10GB/s\"\n", &["line 2", "10Gbit"][..]),
            ("[switch]\ndeep = \"1MB\"\n", &["line 2", "deep", "depth"]),
            ("[swich]\n", &["swich", "switch"]),
            ("[host]\nreceive_rate = 0\n", &["line 2", "above 0"]),
            ("[link]\nrate = true\n", &["line 2", "in quotes"]),
            ("[link]\nrate = 10\n", &["line 2", "\"10\" has no unit", "10Gbit"]),
            ("[switch]\ndepth = 16.5\n", &["line 2", "\"16.5\" has no unit", "330MB"]),
            ("[disk]\nrate = 900\n", &["line 2", "\"900\" has no unit", "1.2GB/s"]),
            ("[build]\nkept = 1.5\n", &["[build] `kept = 1.5`", "at most 1"]),
            ("[switch]\noutputs = 0\n", &["`outputs = 0`", "1 to 4096"]),
            ("[[source]]\nname = \"a\"\n", &["payload_bytes"]),
        ] {
            std::fs::write(&file, text).expect("it can be written");
            let error = read_network(&file).expect_err(text).to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{text}: {error}");
        }
    }
}
