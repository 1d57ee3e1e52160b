//! Whole runs inside this process: emulated boards with faults on their way, recorded, and replayed.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use thalweg_analysis::view::NewCut;
use thalweg_data::BoardId;
use thalweg_export::{Format, ImportReport, ImportRequest, Request};
use thalweg_frontend::digitizer2::emit::{ScopeFields, scope_event};
use thalweg_frontend::digitizer2::emulate::Settings;
use thalweg_frontend::digitizer2::emulate::settings::{Firmware, Rates, Transport};
use thalweg_frontend::format::FuzzTarget;
use thalweg_frontend::fragment::{emit::stream, wire::Header};
use thalweg_monitor::state::EventSelection;
use thalweg_readout::host::{HostSettings, HostedBoard, Place};
use thalweg_record::read::TableReader;
use thalweg_run::config::Configuration;
use thalweg_run::supervise::{EndWhen, LiveState, RunCommand, RunHandle, Summary, Watch};

use super::Run;

/// Every fault of a network, often enough for a run of some hundred datagrams.
const FAULTS: &str = "[source.faults]\ndrop = 0.02\nduplicate = 0.02\nreorder = 0.02\ntruncate = 0.02\nbit_flip = 0.02\nseed = 3\n";
/// Those of them that change nothing in what comes: the sender can say what was in the rest.
const LOSSES: &str = "[source.faults]\ndrop = 0.02\nduplicate = 0.02\nreorder = 0.02\nseed = 5\n";
/// Those that a stream can have.
const STREAM_FAULTS: &str = "[source.faults]\ntruncate = 0.02\nbit_flip = 0.02\nseed = 3\n";
const TRIGGER: &str = "[trigger]\nprogram = \"constant\"\nrate_hz = 3000.0\ntriggers = 1500\n";
const UNITS: &str = "[[unit]]\nname = \"ru-a\"\nkind = \"readout\"\nsources = [\"a\"]\n\
                     [[unit]]\nname = \"ru-b\"\nkind = \"readout\"\nsources = [\"b\"]\n\
                     [[unit]]\nname = \"bu-0\"\nkind = \"builder\"\n[[unit]]\nname = \"bu-1\"\nkind = \"builder\"\n\
                     [[unit]]\nname = \"evm\"\nkind = \"manager\"\n";

/// The runs, by name.
pub const RUNS: &[(&str, Run)] = &[
    ("hits_over_udp", || {
        // Every datagram is a buffer: with it a whole one is lost.
        let buffers =
            digitizer("b", 1, LOSSES).replace("datagram_bytes", "datagrams_per_buffer = 1\ndatagram_bytes");
        hits(&(digitizer("a", 0, FAULTS) + &buffers))
    }),
    ("hits_behind_the_last_that_came", || {
        let silent = digitizer("b", 1, "").replace("first_channel", "loss = 1.0\nfirst_channel");
        recorded(&(digitizer("a", 0, "") + &silent), "\"hits\", \"raw\"", HITS)
    }),
    ("numbered_datagrams", || {
        // Four channels of the board are none of the source's.
        let board = source("a", "format = \"example\"\nchannels = 12\n", "rate_hz = 2e5\n", LOSSES);
        recorded(&board, "\"hits\", \"raw\"", HITS)
    }),
    ("hits_of_a_board", || {
        let board = Settings { rate_hz: Rates::Each(20_000.0), ..tcp_board() };
        of_a_board(board, |url| hits(&format!("{url}{STREAM_FAULTS}")))
    }),
    ("records_in_parts", || {
        // Records of 2 MiB, and the source may hold a quarter of 6 MiB.
        let emulate = "firmware = \"scope\"\nchannels = 8\nwaveform_samples = 131072\nprepared = true\n\
                       aligned_datagrams = false\nexternal_trigger_hz = 50.0\n";
        let udp =
            source("a", "format = \"digitizer2\"\n", emulate, LOSSES).replace("16_777_216", "6_291_456");
        recorded(&udp, RECORD_TABLES, FEW)?;
        let board = Settings {
            firmware: Firmware::Scope,
            waveform_samples: 131_072,
            prepared: true,
            aligned_datagrams: false,
            external_trigger_hz: Some(50.0),
            ..tcp_board()
        };
        of_a_board(board, |url| recorded(&format!("{url}block_bytes = 65536\n"), RECORD_TABLES, FEW))?;
        record_of_unknown_channels()
    }),
    ("imported_file", imported_file),
    ("imported_selection", imported_selection),
    ("added_stages", || {
        crate::added_stages::add_both();
        let stages = "[[stage]]\nkind = \"holdoff\"\nholdoff_ps = 20_000_000\n[[stage]]\nkind = \"prescale\"\nkeep_one_in = 2\n";
        recorded(&(digitizer("a", 0, "") + &digitizer("b", 1, "") + stages), "\"hits\", \"raw\"", HITS)
    }),
    ("fragments", || {
        let emulate = "payload_bytes = 900\ndatagram_bytes = 400\nchecksum = true\n";
        recorded(&(source("a", FRAGMENT, emulate, "") + TRIGGER), FRAGMENT_TABLES, TRIGGERS)
    }),
    ("fragments_that_miss", fragments_that_miss),
    ("boards_with_faults", || {
        recorded(&(source("a", BOARDS, BOARD_FAULTS, "") + TRIGGER + SOON), FRAGMENT_TABLES, TRIGGERS)
    }),
    ("incomplete_events_dropped", || {
        let build = "[build]\nincomplete = \"drop\"\nage_ms = 20\n";
        recorded(&(source("a", BOARDS, BOARD_FAULTS, "") + TRIGGER + build), FRAGMENT_TABLES, TRIGGERS)
    }),
    ("units", || {
        let sources = source("a", BOARDS, BOARD_FAULTS, "") + &source("b", BOARDS, "", "");
        let sections = sources + UNITS + TRIGGER + SOON;
        run(&sections, "\"events\", \"fragments\"", TRIGGERS).map(drop)
    }),
    ("filtered", || {
        let filter = "[filter]\nkeep = 'bit(\"a/1\", 23, 0)'\nworkers = 2\nprescale = 7\n";
        let sections = source("a", FRAGMENT, "payload_bytes = 200\n", "") + TRIGGER + SOON + filter;
        let EventSelection { rejected, prescaled, .. } = selection(&sections)?;
        let share = prescaled as f64 / (rejected + prescaled).max(1) as f64;
        (0.09..0.2)
            .contains(&share)
            .then_some(())
            .ok_or(format!("{prescaled} of {rejected} rejected events are kept"))?;
        recorded(&sections, FRAGMENT_TABLES, TRIGGERS)
    }),
    ("filtered_by_units", || {
        let sources = source("a", BOARDS, "", "") + &source("b", BOARDS, "", "");
        let filter = "[filter]\nkeep = 'fragment_bytes(\"a-1\") > fragment_bytes(\"b-1\")'\n";
        let sections = sources + UNITS + TRIGGER + SOON + filter;
        run(&sections, "\"events\", \"fragments\"", TRIGGERS).map(drop)
    }),
    ("undecided", || {
        crate::event_filter::add();
        let undecided = |policy: &str| {
            let filter = format!(
                "[filter]\nkind = \"late_at\"\nkeep = \"300\"\nworkers = 2\ndeadline_ms = 20\nundecided = \"{policy}\"\n"
            );
            selection(&(source("a", BOARDS, "", "") + TRIGGER + SOON + &filter))
        };
        let (kept, lost) = (undecided("keep")?.undecided_kept, undecided("drop")?.undecided_lost);
        (kept > 0 && lost > 0).then_some(()).ok_or(format!("{kept} kept, {lost} lost"))
    }),
    ("slices_of_hits", || {
        let sources = digitizer("a", 0, "") + &digitizer("b", 1, "");
        let slices = "[slices]\nslice_ps = 1_000_000_000\nmemory_bytes = 33_554_432\n";
        let end = EndWhen { events: Some(20), ..LIMIT };
        recorded(&(sources + slices), "\"hits\", \"events\", \"fragments\", \"raw\"", end)
    }),
    ("late_slices", || {
        let sources = digitizer("a", 0, "") + &digitizer("b", 1, "");
        let slices = "[slices]\nslice_ps = 1_000_000_000\ndisorder_ps = 0\nsilence_ms = 1\nmemory_bytes = 33_554_432\n";
        let end = EndWhen { events: Some(60), ..LIMIT };
        recorded(&(sources + slices), "\"events\", \"fragments\", \"raw\"", end)
    }),
    ("late_hits_dropped", || {
        let order = "[order]\nlate = \"drop\"\ndisorder_ps = 0\nstall_ms = 1\n";
        run(&(digitizer("a", 0, FAULTS) + &digitizer("b", 1, FAULTS) + order), "\"hits\"", HITS).map(drop)
    }),
    ("late_hits_kept", || {
        let order = "[order]\ndisorder_ps = 0\nstall_ms = 1\n";
        recorded(&(digitizer("a", 0, FAULTS) + &digitizer("b", 1, FAULTS) + order), "\"hits\", \"raw\"", HITS)
    }),
    ("recorded_with_sync", || {
        let sync = "sync = \"batch\"\nbatch_age_s = 0.02\n";
        synced(&digitizer("a", 0, ""), "\"hits\"", sync, HITS)?;
        synced(&(source("a", BOARDS, "", "") + TRIGGER), FRAGMENT_TABLES, sync, TRIGGERS)
    }),
    ("recovered", || {
        recovered(&(digitizer("a", 0, "") + &digitizer("b", 1, "")), "\"hits\", \"raw\"", HITS)?;
        recovered(&(source("a", BOARDS, "", "") + TRIGGER), FRAGMENT_TABLES, TRIGGERS)
    }),
    ("damaged", || damaged(&(digitizer("a", 0, "") + &digitizer("b", 1, "")), HITS)),
    ("paused", || paused(&(digitizer("a", 0, "") + &digitizer("b", 1, "")))),
    ("cut_on_request", || cut_on_request(&(digitizer("a", 0, "") + &digitizer("b", 1, "")))),
    ("files", || {
        file("compass", "")?;
        file("abcd", "tick_ps = 2.0\n")
    }),
    ("slices_of_fragments", || {
        let emulate = "payload_bytes = 200\ntick_ps = 1000\nstream = true\n";
        let source = source("a", "format = \"fragment\"\nboards = 3\ntick_ps = 1000\n", emulate, "");
        let slices = "[slices]\nslice_ps = 1_000_000_000\n";
        recorded(&(source + TRIGGER + slices), FRAGMENT_TABLES, TRIGGERS)
    }),
];

/// A run that does not come to its end has failed.
const LIMIT: EndWhen = EndWhen { seconds: Some(30.0), hits: None, events: None };
const FEW: EndWhen = EndWhen { hits: Some(400), ..LIMIT };
const RECORD_TABLES: &str = "\"hits\", \"waveforms\", \"raw\"";
const HITS: EndWhen = EndWhen { hits: Some(50_000), ..LIMIT };
/// The run ends with its triggers.
const TRIGGERS: EndWhen = LIMIT;
const SOON: &str = "[build]\nage_ms = 20\n";
const BOARD_FAULTS: &str =
    "faults = { lose_every = 40, double_every = 50, empty_every = 30, twelve_every = 20 }\n";
const FRAGMENT: &str = "format = \"fragment\"\nboards = 4\n";
const BOARDS: &str = "format = \"sitcp\"\nboards = 3\nprofile = \"recbe\"\nnamed_by = \"connection\"\n";
const FRAGMENT_TABLES: &str = "\"events\", \"fragments\", \"raw\"";

fn source(name: &str, keys: &str, emulate: &str, faults: &str) -> String {
    format!(
        "[[source]]\nname = \"{name}\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\n{keys}{faults}[source.emulate]\n{emulate}"
    )
}

fn digitizer(name: &str, board: u16, faults: &str) -> String {
    let keys = format!("format = \"digitizer2\"\nchannels = 8\nfirst_channel = {}\n", 8 * board);
    let emulate = format!(
        "board = {board}\nboards = 2\nchannels = 8\nrate_hz = 20000.0\n\
         datagram_bytes = 1000\naggregate_hits = 20\nwaveform_samples = 16\nwaveform_every = 10\nstart_stop_events = true\n"
    );
    source(name, &keys, &emulate, faults)
}

fn tcp_board() -> Settings {
    Settings { channels: 8, transport: Transport::Tcp, ..Settings::default() }
}

/// Does something with a board on the network, which a run of these sections arms and reads.
fn of_a_board(emulate: Settings, work: impl FnOnce(&str) -> Result<(), String>) -> Result<(), String> {
    let address = std::net::IpAddr::from([127, 0, 0, 1]);
    let port = |socket: std::io::Result<std::net::TcpListener>| {
        socket.and_then(|socket| socket.local_addr()).map(|address| address.port())
    };
    let control_port = port(std::net::TcpListener::bind((address, 0))).map_err(|error| error.to_string())?;
    let place = Place::Network { address, control_port, udp_port: 0 };
    let board = HostedBoard::new(HostSettings { board: Box::new(emulate), place, loss: 0.0, truth: None });
    let _board = board.map_err(|error| error.to_string())?;
    work(&format!(
        "[[source]]\nname = \"a\"\nformat = \"digitizer2\"\nurl = \"dig2://127.0.0.1:{control_port}\"\n"
    ))
}

/// A file with a record in parts, half of whose channels are none of the source's.
fn record_of_unknown_channels() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (file, mut event) = (folder.path().join("scope.raw"), Vec::new());
    let fields = ScopeFields { channel_mask: 0xFF, ..ScopeFields::default() };
    scope_event(&mut event, &fields, &[&[7; 16_384][..]; 8]);
    std::fs::write(&file, event).map_err(|error| error.to_string())?;
    let keys = "format = \"digitizer2\"\nfirmware = \"scope\"\nchannels = 4\nblock_bytes = 65536\n";
    let sections = format!("[[source]]\nname = \"a\"\nurl = \"file://{}\"\n{keys}", file.display());
    run(&sections, RECORD_TABLES, LIMIT).map(drop)
}

/// A file in which one of two boards answers nineteen of twenty triggers. The builder alone knows of these gaps: a fragment of this form has
/// no number of its own beside the trigger's.
fn fragments_that_miss() -> Result<(), String> {
    let mut bytes = Vec::new();
    for trigger in 0..2000 {
        for board in [BoardId(0), BoardId(1)] {
            let header = Header { board, run: 1, trigger, ticks: trigger * 1000, ..Header::default() };
            if board == BoardId(0) || trigger % 20 != 7 {
                stream(&header, &[0x5A; 100], false, &mut bytes);
            }
        }
    }
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = folder.path().join("fragments.bin");
    std::fs::write(&file, bytes).map_err(|error| error.to_string())?;
    let keys = "format = \"fragment\"\nboards = 2\n";
    let source = format!("[[source]]\nname = \"a\"\nurl = \"file://{}\"\n{keys}{SOON}", file.display());
    recorded(&source, FRAGMENT_TABLES, LIMIT)
}

fn hits(sources: &str) -> Result<(), String> {
    let physics = "[coincidence]\nwindow_ps = 100_000\n[[cut]]\nname = \"strong\"\nkeep = \"energy > 300\"\n\
                   [[cut]]\nname = \"few\"\non = \"event\"\nkeep = \"multiplicity < 3\"\n";
    recorded(
        &(sources.to_owned() + physics),
        "\"hits\", \"extras\", \"waveforms\", \"raw\"",
        EndWhen { hits: Some(50_000), ..LIMIT },
    )
}

/// What the event filter of a run has done.
fn selection(sections: &str) -> Result<EventSelection, String> {
    let (_, summary) = run(sections, FRAGMENT_TABLES, TRIGGERS)?;
    summary.events.and_then(|events| events.selection).ok_or("no filter".to_owned())
}

/// A run that verifies, and the replay of what it recorded.
fn recorded(sections: &str, tables: &str, end: EndWhen) -> Result<(), String> {
    let (folder, summary) = run(sections, tables, end)?;
    let recorded = summary.run_directory.ok_or("no recording")?;
    let report = thalweg_record::verify(&recorded).map_err(|error| error.to_string())?;
    if !report.ok {
        return Err(format!("its recording: {:?}", report.problems));
    }
    let replay = |watch: &mut Watch<'_>| thalweg_run::replay(&recorded, &folder.path().join("again"), watch);
    balances("its replay", watched(replay)?)?;
    Ok(())
}

/// A run whose table of received bytes is damaged in its middle and recovered, and the replay of that.
fn recovered(sections: &str, tables: &str, end: EndWhen) -> Result<(), String> {
    let words = |error: &dyn std::fmt::Display| error.to_string();
    let (folder, summary) = run_with(sections, tables, "batch_bytes = 50000\n", end)?;
    let recorded = summary.run_directory.ok_or("no recording")?;
    flip_a_byte(&recorded.join("raw.arrows"))?;
    thalweg_record::read::recover(&recorded).map_err(|error| words(&error))?;
    let replay = |watch: &mut Watch<'_>| thalweg_run::replay(&recorded, &folder.path().join("again"), watch);
    balances("its replay", watched(replay)?).map(drop)
}

/// The replay of a run whose table of received bytes is damaged in its middle and was not recovered: it fails, and balances.
fn damaged(sections: &str, end: EndWhen) -> Result<(), String> {
    let (folder, summary) = run_with(sections, "\"hits\", \"raw\"", "batch_bytes = 50000\n", end)?;
    let recorded = summary.run_directory.ok_or("no recording")?;
    flip_a_byte(&recorded.join("raw.arrows"))?;
    let summary = watched(|watch| thalweg_run::replay(&recorded, &folder.path().join("again"), watch))?;
    if summary.ledger_closed { Ok(()) } else { Err(format!("its replay: {:?}", summary.discrepancies)) }
}

/// An import of a MIDAS file with a damaged event, and with an end that is cut off.
fn imported_file() -> Result<(), String> {
    let words = |error: &dyn std::fmt::Display| error.to_string();
    let mut bytes = Vec::new();
    let header = |to: &mut Vec<u8>, id: u16, mask: u16, length: u32| {
        [id, mask].into_iter().for_each(|half| to.extend(half.to_le_bytes()));
        [7, 1_700_000_000, length].into_iter().for_each(|word: u32| to.extend(word.to_le_bytes()));
    };
    header(&mut bytes, 0x8000, 0x494D, 2);
    bytes.extend(b"{}");
    // The second bank is longer than its event.
    for bank_bytes in [8u32, 80, 8] {
        header(&mut bytes, 1, 1, 32);
        [24u32, 0x31].into_iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend(b"ADC0");
        [4, bank_bytes, 0, 1, 2].into_iter().for_each(|word: u32| bytes.extend(word.to_le_bytes()));
    }
    header(&mut bytes, 1, 1, 1000);
    let folder = tempfile::tempdir().map_err(|error| words(&error))?;
    let file = folder.path().join("cut.mid");
    std::fs::write(&file, bytes).map_err(|error| words(&error))?;
    let report = imported(file, folder.path().join("runs"))?;
    if report.events == 2 { Ok(()) } else { Err(format!("{} events are imported", report.events)) }
}

/// An export of events that a filter has selected, and its import.
fn imported_selection() -> Result<(), String> {
    let words = |error: &dyn std::fmt::Display| error.to_string();
    let filter = "[filter]\nkeep = 'bit(\"a/1\", 23, 0)'\nprescale = 7\n";
    let sections = source("a", FRAGMENT, "payload_bytes = 200\n", "") + TRIGGER + SOON + filter;
    let (folder, summary) = run(&sections, FRAGMENT_TABLES, TRIGGERS)?;
    let file = folder.path().join("run.mid");
    let request = Request {
        run: summary.run_directory.ok_or("no recording")?,
        format: Format::Mid,
        out: file.clone(),
        tables: Vec::new(),
        with_kev: false,
        with_names: false,
        described: Vec::new(),
    };
    thalweg_export::export(&request, &mut |_| true).map_err(|error| words(&error))?;
    imported(file, folder.path().join("imported")).map(drop)
}

/// What is imported of a file, when the recording verifies.
fn imported(file: PathBuf, directory: PathBuf) -> Result<ImportReport, String> {
    let words = |error: &dyn std::fmt::Display| error.to_string();
    let request = ImportRequest { file, directory, title: None };
    let report = thalweg_export::import(&request, &mut |_| true).map_err(|error| words(&error))?;
    let found = thalweg_record::verify(&report.run_directory).map_err(|error| words(&error))?;
    if found.ok { Ok(report) } else { Err(format!("its recording: {:?}", found.problems)) }
}

/// Damages what the batch in the middle of a table holds: what stands in front of it decides whether a replay begins at all.
fn flip_a_byte(file: &Path) -> Result<(), String> {
    let mut bytes = std::fs::read(file).map_err(|error| error.to_string())?;
    let mut table = TableReader::open(file).map_err(|error| error.to_string())?;
    let middle = bytes.len() as u64 / 2;
    while let Some(batch) = table.next_batch().map_err(|error| error.to_string())? {
        if batch.end() > middle {
            bytes[(batch.offset().midpoint(batch.end())) as usize] ^= 0x10;
            return std::fs::write(file, bytes).map_err(|error| error.to_string());
        }
    }
    Err(format!("no batch in the middle of {}", file.display()))
}

fn hits_recorded(least: u64) -> impl Fn(&LiveState) -> bool {
    move |state| state.hits_recorded >= least
}

/// A run that is paused for a while.
fn paused(sections: &str) -> Result<(), String> {
    steered(sections, |run| {
        until(run, hits_recorded(1000));
        let _refused = run.command(&RunCommand::Pause);
        until(run, |state| state.state == thalweg_run::RunState::Paused);
        // A board that is not scheduled meanwhile has no pulse that is inhibited: it is given a while.
        let since = run.state().elapsed_seconds;
        until(run, |state| state.elapsed_seconds > since + 0.5);
        let before = run.state().hits_recorded;
        let _refused = run.command(&RunCommand::Resume);
        until(run, hits_recorded(before + 1000));
    })
}

/// A run of whose hits a cut shows some, for a while.
fn cut_on_request(sections: &str) -> Result<(), String> {
    steered(sections, |run| {
        until(run, hits_recorded(1000));
        let Some(observed) = run.observed() else { return };
        let cut = NewCut { name: "weak".into(), keep: "energy < 2000".into(), polygon: None };
        let applied = observed.view.cut(&cut);
        until(run, |state| state.applied.iter().any(|applied| applied.input > applied.kept));
        let _refused = applied.and_then(|applied| observed.view.revert(applied.number));
        let before = run.state().hits_recorded;
        until(run, hits_recorded(before + 1000));
    })
}

/// A run that somebody moves, and stops at the end.
fn steered(sections: &str, steps: impl FnOnce(&RunHandle) + Send + 'static) -> Result<(), String> {
    let handle = RunHandle::new();
    let held = handle.clone();
    let steers = std::thread::spawn(move || {
        steps(&held);
        let _refused = held.command(&RunCommand::Stop);
    });
    let (_folder, configuration) = configured(sections, "\"hits\"", "")?;
    let never = AtomicBool::new(false);
    let mut watch = Watch { show: &mut |_| {}, stop: &never, handle };
    let summary = thalweg_run::run(&configuration, LIMIT, &mut watch).map_err(|error| error.to_string())?;
    steers.join().map_err(|_| "who moves the run failed")?;
    balances("the run", summary).map(drop)
}

fn until(handle: &RunHandle, wanted: impl Fn(&LiveState) -> bool) {
    let mut seen = 0;
    for _ in 0..300 {
        let Some(state) = handle.newer_than(seen, Duration::from_millis(100)) else { continue };
        if wanted(&state) {
            return;
        }
        seen = state.sequence;
    }
}

/// A run that reads files of whole and damaged bytes.
fn file(format: &str, keys: &str) -> Result<(), String> {
    let target = FuzzTarget::all().find(|target| target.name == format).expect("a family lists it");
    let seeds = (target.seeds)();
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    for (number, seed) in seeds.iter().enumerate().step_by(4) {
        let path = folder.path().join(format!("{number}"));
        std::fs::write(&path, &seed[1..]).map_err(|error| error.to_string())?;
        let source = format!(
            "[[source]]\nname = \"a\"\nformat = \"{format}\"\nurl = \"file://{}\"\nmemory_bytes = 16_777_216\n{keys}",
            path.display()
        );
        run(&source, "\"hits\"", LIMIT)?;
    }
    Ok(())
}

fn synced(sections: &str, tables: &str, sync: &str, end: EndWhen) -> Result<(), String> {
    run_with(sections, tables, sync, end).map(drop)
}

fn run(sections: &str, tables: &str, end: EndWhen) -> Result<(tempfile::TempDir, Summary), String> {
    run_with(sections, tables, "", end)
}

fn run_with(
    sections: &str,
    tables: &str,
    record: &str,
    end: EndWhen,
) -> Result<(tempfile::TempDir, Summary), String> {
    let (folder, configuration) = configured(sections, tables, record)?;
    let summary = watched(|watch| thalweg_run::run(&configuration, end, watch))?;
    balances("the run", summary).map(|summary| (folder, summary))
}

fn configured(
    sections: &str,
    tables: &str,
    record: &str,
) -> Result<(tempfile::TempDir, Configuration), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let directory = folder.path().join("runs");
    let text = format!("{sections}[record]\ndirectory = {directory:?}\ntables = [{tables}]\n{record}");
    let configuration = Configuration::parse(Path::new("run.toml"), text);
    Ok((folder, configuration.map_err(|error| error.to_string())?))
}

fn watched<E: ToString>(work: impl FnOnce(&mut Watch<'_>) -> Result<Summary, E>) -> Result<Summary, String> {
    let never = AtomicBool::new(false);
    let mut watch = Watch { show: &mut |_| {}, stop: &never, handle: RunHandle::new() };
    work(&mut watch).map_err(|error| error.to_string())
}

fn balances(what: &str, summary: Summary) -> Result<Summary, String> {
    match summary.is_good() {
        true => Ok(summary),
        false => Err(format!("{what}: {:?} {:?}", summary.discrepancies, summary.failures)),
    }
}
