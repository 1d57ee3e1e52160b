//! `thalweg ship`: copies recordings to other hosts and disks.

use std::time::{Duration, Instant};

use thalweg_run::config::Configuration;
use thalweg_ship::Settings;
use thalweg_ship::progress::{Progress, RouteProgress, RouteStage};
use thalweg_ship::shipper::{Order, ship as ship_order};

use super::Ended;
use super::receive::token;
use crate::arguments;
use crate::progress::StandingLines;
use crate::report::{CommandOutcome, Failure, print, si};
use crate::signals::Signals;
use crate::terminal;

/// Plain lines come this often.
const PLAIN_EVERY: Duration = Duration::from_secs(10);

pub(crate) fn ship(options: &arguments::Ship, json: bool) -> Ended {
    let order = order(options)?;
    let signals = Signals::install()?;
    let mut lines = StandingLines::on_terminal(json);
    let every =
        options.progress_every_s.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
    let every = if json { every.filter(|_| options.follow) } else { Some(PLAIN_EVERY) };
    let mut last = Instant::now();
    let mut show = |progress: &Progress| {
        signals.report_hangup();
        if let Some(lines) = &mut lines {
            lines.show(text(progress).lines().map(str::to_owned).collect());
        } else if every.is_some_and(|every| last.elapsed() >= every) {
            last = Instant::now();
            match json {
                true => terminal::passing_line(&serde_json::to_string(progress).unwrap_or_default()),
                false => terminal::notice(&text(progress)),
            }
        }
    };
    let shipped = ship_order(&order, signals.stop_flag(), &mut show);
    if let Some(lines) = lines {
        lines.finish();
    }
    let progress = shipped.map_err(|error| match error {
        thalweg_ship::ShipError::Settings(_) => Failure::Usage(error.into()),
        error => Failure::Other(error.into()),
    })?;
    print(&progress, json, text)?;
    let is_done = progress.destinations.iter().all(|route| {
        let is_held = matches!(route.stage, RouteStage::Held | RouteStage::GivenUp);
        route.problems.is_empty() && !is_held
    });
    let is_interrupted = signals.stop_requested() && !options.follow && !progress.is_complete;
    Ok(if is_done && !is_interrupted { CommandOutcome::Done } else { CommandOutcome::Failed })
}

/// What was typed and what the configuration says.
fn order(options: &arguments::Ship) -> Result<Order, Failure> {
    let configuration = options.config.as_deref().map(Configuration::read).transpose()?;
    let mut settings = match &configuration {
        Some(found) => found.ship.clone().unwrap_or_default(),
        None => Settings::default(),
    };
    let beside = |file: &std::path::PathBuf| {
        options
            .config
            .as_ref()
            .and_then(|config| config.parent())
            .map_or(file.clone(), |folder| folder.join(file))
    };
    settings.token_file = settings.token_file.as_ref().map(beside);
    settings.tls_ca = settings.tls_ca.as_ref().map(beside);
    settings.bearer_token_file = settings.bearer_token_file.as_ref().map(beside);
    if !options.to.is_empty() {
        settings.to.clone_from(&options.to);
        settings.copies = settings.copies.min(settings.to.len());
    }
    if !options.windows.is_empty() {
        settings.windows.clone_from(&options.windows);
    }
    settings.streams = options.streams.map_or(settings.streams, usize::from);
    settings.limit_bytes_per_s = options.limit_bytes_per_s.or(settings.limit_bytes_per_s);
    settings.yields &= !options.no_yield;
    settings.endpoint = options.endpoint.clone().or(settings.endpoint);
    settings.region = options.region.clone().or(settings.region);
    settings.allow_http |= options.allow_http;
    settings.stay_behind = options.stay_behind.unwrap_or(settings.stay_behind);
    settings.token_file = options.token_file.clone().or(settings.token_file);
    settings.tls_ca = options.tls_ca.clone().or(settings.tls_ca);
    let key = settings.token_file.as_deref().map(token).transpose().map_err(Failure::Usage)?;
    let mut runs = options.runs.clone();
    if let Some(found) = configuration.filter(|_| runs.is_empty()) {
        runs.push(found.record.directory);
    }
    let give_up_after = Duration::from_secs(options.give_up_after_s);
    Ok(Order { runs, settings, key, follow: options.follow, give_up_after })
}

fn text(progress: &Progress) -> String {
    let mut lines: Vec<String> = progress.destinations.iter().flat_map(route_lines).collect();
    let open = match progress.runs_open {
        0 => String::new(),
        open => format!(", {open} of them not ended"),
    };
    let free =
        progress.disk_free_bytes.map_or(String::new(), |free| format!("; {}B free here", si(free as f64)));
    let full =
        progress.disk_full_in_s.map_or(String::new(), |left| format!(", full in {:.1} h", left / 3600.0));
    lines.push(format!("{} runs{open}{free}{full}", progress.runs));
    lines.join("\n")
}

fn route_lines(route: &RouteProgress) -> Vec<String> {
    let stage = match route.stage {
        RouteStage::Shipping => "shipping",
        RouteStage::UpToDate => "up to date",
        RouteStage::Incomplete => "incomplete",
        RouteStage::WaitingForFiles => "waiting for files that are still written",
        RouteStage::Held => "held",
        RouteStage::Waiting => "outside its time windows",
        RouteStage::GivenUp => "given up",
    };
    let RouteProgress { to, files, files_finished, bytes, bytes_proved, backlog_bytes, .. } = route;
    let mut lines = vec![format!(
        "{to}: {stage}; {files_finished} of {files} files complete, {}B of {}B proved, {}B to go, {}B/s",
        si(*bytes_proved as f64),
        si(*bytes as f64),
        si(*backlog_bytes as f64),
        si(route.rate_bytes_per_s)
    )];
    let balance = if route.ledger_balances == Some(false) { "; IT DOES NOT BALANCE" } else { "" };
    lines.push(format!("  ledger: {}{balance}", route.ledger));
    lines.extend(route.held.iter().chain(&route.problems).map(|text| format!("  {text}")));
    lines
}
