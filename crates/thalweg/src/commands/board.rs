//! Parameters and registers of a board or device of any family, read and set outside a run, and a board made idle.
//!
//! ```text
//!  URL ─► DeviceSettings ─► dyn DeviceControl ─ get, set, list ─► values
//!                                                 dump ─► TOML that `load` and `parameters` of a configuration take
//!  settings file of a vendor ─ import ─► TOML: sources of a configuration
//! ```

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, anyhow};
use serde::{Deserialize, Serialize};
use thalweg_frontend::FORMATS;
use thalweg_frontend::format::ImportedSettings;
use thalweg_readout::make_idle;
use thalweg_run::{Applied, DeviceControl, DeviceSettings, Parameter};

use super::Ended;
use crate::arguments::{Board, BoardTarget, BoardWhat};
use crate::report::{CommandOutcome, Failure, print};

/// Runs the requested command on a board.
pub(crate) fn board(options: &Board, json: bool) -> Ended {
    match &options.what {
        BoardWhat::Get { target, paths } => get(target, paths, json),
        BoardWhat::Set { target, assignments, unchecked } => set(target, assignments, unchecked, json),
        BoardWhat::Dump { target, output } => dump(target, output.as_deref(), json),
        BoardWhat::Load { target, file, unchecked } => load(target, file, unchecked, json),
        BoardWhat::Disarm { target } => disarm(target, json),
        BoardWhat::Import { file, output } => import(file, output.as_deref(), json),
    }
}

fn usage(message: String) -> Failure {
    Failure::Usage(anyhow!(message))
}

fn device(target: &BoardTarget) -> Result<DeviceSettings, Failure> {
    let device = DeviceSettings::at(&target.url, target.table.as_deref());
    device.check().map_err(usage)?;
    Ok(device)
}

fn opened(target: &BoardTarget) -> Result<Box<dyn DeviceControl>, Failure> {
    Ok(device(target)?.open()?)
}

#[derive(Serialize)]
struct Read<'p> {
    path: &'p str,
    value: String,
}

fn get(target: &BoardTarget, paths: &[String], json: bool) -> Ended {
    let mut control = opened(target)?;
    let mut all = Vec::new();
    for path in paths {
        all.push(Read { path, value: control.get(path)? });
    }
    let line = |one: &Read<'_>| format!("{} = {}\n", one.path, one.value);
    print(&all, json, |all| all.iter().map(line).collect())?;
    Ok(CommandOutcome::Done)
}

/// Sets parameters, reads them back and compares, as a run does.
fn apply(target: &BoardTarget, parameters: Vec<(String, String)>, unchecked: &[String], json: bool) -> Ended {
    let device = DeviceSettings { parameters, unchecked: unchecked.to_vec(), ..device(target)? };
    device.check().map_err(usage)?;
    let applied = device.apply(&mut *device.open()?)?;
    let line = |one: &Applied| match &one.read {
        Some(read) => format!("{} = {}, reads {read}\n", one.path, one.set),
        None => format!("{} = {}, cannot be read\n", one.path, one.set),
    };
    print(&applied, json, |applied| applied.iter().map(line).collect())?;
    Ok(CommandOutcome::Done)
}

fn set(target: &BoardTarget, assignments: &[String], unchecked: &[String], json: bool) -> Ended {
    let pair = |assignment: &String| {
        let pair = assignment.split_once('=').map(|(path, value)| (path.to_owned(), value.to_owned()));
        pair.ok_or_else(|| {
            usage(format!("`{assignment}`: write PATH=VALUE, as in CTRL.MODE=3 or /ch/0/par/chenable=true"))
        })
    };
    apply(target, assignments.iter().map(pair).collect::<Result<_, _>>()?, unchecked, json)
}

/// The parameters that `dump` writes and `load` takes.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    parameters: Vec<(String, String)>,
}

fn dump(target: &BoardTarget, output: Option<&Path>, json: bool) -> Ended {
    let listed = opened(target)?.list()?;
    if listed.is_empty() {
        return Err(usage(format!("{} lists no registers; give its address table with --table", target.url)));
    }
    if let Some(file) = output {
        std::fs::write(file, text_of(&target.url, &listed)).with_context(|| file.display().to_string())?;
        print(&listed.len(), json, |count| format!("{count} parameters in {}", file.display()))?;
        return Ok(CommandOutcome::Done);
    }
    print(&listed, json, |listed| text_of(&target.url, listed))?;
    Ok(CommandOutcome::Done)
}

/// Those that can be set as a configuration has them; the others as comments, for people.
fn text_of(url: &str, listed: &[Parameter]) -> String {
    let mut text = format!("# {url}\n");
    let quoted = |text: &str| toml::Value::from(text).to_string();
    for Parameter { path, value, .. } in listed.iter().filter(|one| !one.is_settable) {
        let value = value.as_deref().unwrap_or("did not come");
        let _ = writeln!(text, "# {path} = {value}");
    }
    text.push_str("parameters = [\n");
    for Parameter { path, value, .. } in listed.iter().filter(|one| one.is_settable) {
        let _ = match value {
            Some(value) => writeln!(text, "    [{}, {}],", quoted(path), quoted(value)),
            None => writeln!(text, "    # {path} did not come"),
        };
    }
    text + "]\n"
}

fn load(target: &BoardTarget, file: &Path, unchecked: &[String], json: bool) -> Ended {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let parameters: Parameters = toml::from_str(&text)
        .map_err(|error| usage(format!("{}: {}", file.display(), error.to_string().trim_end())))?;
    apply(target, parameters.parameters, unchecked, json)
}

#[derive(Serialize)]
struct Disarmed<'t> {
    url: &'t str,
    reported: String,
}

fn disarm(target: &BoardTarget, json: bool) -> Ended {
    let mut control = opened(target)?;
    let Some(status) = make_idle(&mut *control)? else {
        return Err(usage(format!("{} does not report whether it is armed; only digitizers do", target.url)));
    };
    let (is_idle, reported) = (!status.is_running, status.text);
    let line = |disarmed: &Disarmed<'_>| format!("{}: {}", disarmed.url, disarmed.reported);
    print(&Disarmed { url: &target.url, reported }, json, line)?;
    Ok(if is_idle { CommandOutcome::Done } else { CommandOutcome::Failed })
}

fn import(file: &Path, output: Option<&Path>, json: bool) -> Ended {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let mut refused = Vec::new();
    for (family, control) in FORMATS.iter().filter_map(|family| Some((family.word, family.control?))) {
        match control.import.map(|import| import(&text)) {
            Some(Ok(boards)) => return write_imported(&boards, (family, control.scheme), output, json),
            Some(Err(reason)) => refused.push(reason),
            None => {}
        }
    }
    Err(usage(format!("{}: {}", file.display(), refused.join("; "))))
}

fn write_imported(
    boards: &[ImportedSettings],
    family: (&str, &str),
    output: Option<&Path>,
    json: bool,
) -> Ended {
    let Some(file) = output else {
        print(&boards, json, |boards| sources_of(boards, family))?;
        return Ok(CommandOutcome::Done);
    };
    std::fs::write(file, sources_of(boards, family)).with_context(|| file.display().to_string())?;
    let parameters = boards.iter().map(|board| board.parameters.len()).sum::<usize>();
    let left = boards.iter().map(|board| board.not_imported.len()).sum::<usize>();
    print(&boards, json, |_| {
        format!(
            "{parameters} parameters in {}; {left} settings were not taken, and are comments there",
            file.display()
        )
    })?;
    Ok(CommandOutcome::Done)
}

/// Sources as a configuration has them; what was not taken as comments.
fn sources_of(boards: &[ImportedSettings], (format, scheme): (&str, &str)) -> String {
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let mut text = String::new();
    for (number, ImportedSettings { board, parameters, not_imported }) in boards.iter().enumerate() {
        let _ = write!(
            text,
            "# {}\n[[source]]\nname   = \"board-{number}\"\nformat = \"{format}\"\nurl    = \"{scheme}://ADDRESS\"\nparameters = [\n",
            board.replace(char::is_control, " ")
        );
        for (path, value) in parameters {
            let _ = writeln!(text, "    [{}, {}],", quoted(path), quoted(value));
        }
        text.push_str("]\n");
        if !not_imported.is_empty() {
            text.push_str("# Not taken:\n");
        }
        for left in not_imported {
            let line = format!("{} = {} ({}): {}", left.key, left.value, left.place, left.reason);
            let _ = writeln!(text, "#   {}", line.replace(char::is_control, " "));
        }
        text.push('\n');
    }
    text
}
