//! A hub for IPbus boards: its rules from a file, its state while it goes on, its counts at the end.
//!
//! ```text
//!  --rules, --allow ─► Rules ─► HubServer ─┬ twice a second ─► a line for each target
//!                                          └ --page ─► a page, its state, metrics
//! ```

mod page;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use serde::Deserialize;
use thalweg_ipbus::hub::{
    Access, ClientState, HubOptions, HubServer, HubState, Network, Refusals, Rule, Rules, TargetPattern,
    TargetState,
};
use thalweg_ipbus::table::number;

use super::Ended;
use crate::arguments::Hub;
use crate::progress::StandingLines;
use crate::report::{CommandOutcome, Failure, print, si};
use crate::signals::Signals;
use crate::terminal;

const SHOWN: Duration = Duration::from_millis(500);
/// Plain lines come this often.
const PLAIN_EVERY: Duration = Duration::from_secs(10);
/// Targets that have a line on a terminal.
const MOST_LINES: usize = 20;
/// The time within which pending requests are answered at the end, or given up.
const END_WITHIN: Duration = Duration::from_secs(5);

/// A file of `--rules`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    #[serde(default)]
    targets: Vec<String>,
    #[serde(default)]
    rule: Vec<RuleEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleEntry {
    #[serde(default = "everybody")]
    clients: String,
    #[serde(default = "everybody")]
    targets: String,
    addresses: Option<String>,
    access: AccessWord,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AccessWord {
    None,
    Read,
    Write,
}

fn everybody() -> String {
    "*".to_owned()
}

impl RuleEntry {
    fn rule(&self) -> anyhow::Result<Rule> {
        let addresses = match &self.addresses {
            None => 0..=u32::MAX,
            Some(text) => {
                let (first, last) = text.split_once("..=").unwrap_or((text, text));
                let both =
                    number(first.trim()).zip(number(last.trim())).filter(|(first, last)| first <= last);
                let (first, last) =
                    both.ok_or_else(|| anyhow!("`{text}` are no addresses; write 0x1000..=0x1FFF or 0x10"))?;
                first..=last
            }
        };
        Ok(Rule {
            clients: self.clients.parse::<Network>()?,
            targets: self.targets.parse::<TargetPattern>()?,
            addresses,
            access: match self.access {
                AccessWord::None => Access::None,
                AccessWord::Read => Access::Read,
                AccessWord::Write => Access::Write,
            },
        })
    }
}

fn rules_of(file: &Path) -> anyhow::Result<Rules> {
    let text = std::fs::read_to_string(file)?;
    let file: RuleFile = toml::from_str(&text)?;
    let targets = file.targets.iter().map(|text| text.parse::<TargetPattern>());
    let mut rules = Rules { targets: targets.collect::<Result<_, _>>()?, rules: Vec::new() };
    for (place, entry) in file.rule.iter().enumerate() {
        rules.rules.push(entry.rule().with_context(|| format!("rule {}", place + 1))?);
    }
    Ok(rules)
}

/// The original's allow list: a target in a line, `#` before what is for people.
fn targets_of(file: &Path) -> anyhow::Result<Vec<TargetPattern>> {
    let text = std::fs::read_to_string(file)?;
    let mut targets = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let target = line.split('#').next().unwrap_or_default().trim();
        if !target.is_empty() {
            targets.push(target.parse().with_context(|| format!("line {number}"))?);
        }
    }
    match targets.is_empty() {
        true => Err(anyhow!("it has no target; without --allow every target is served")),
        false => Ok(targets),
    }
}

fn options_of(options: &Hub) -> Result<HubOptions, Failure> {
    let of_file =
        |file: &Path, error: anyhow::Error| Failure::Usage(error.context(file.display().to_string()));
    let mut rules = match &options.rules {
        None => Rules::default(),
        Some(file) => rules_of(file).map_err(|error| of_file(file, error))?,
    };
    if let Some(file) = &options.allow {
        rules.targets.extend(targets_of(file).map_err(|error| of_file(file, error))?);
    }
    Ok(HubOptions {
        rules,
        timeout: Duration::from_millis(options.timeout_ms),
        most_clients: options.most_clients as usize,
        busy_poll: options.busy_poll,
        ..HubOptions::at(options.listen)
    })
}

pub(crate) fn hub(options: &Hub, json: bool) -> Ended {
    let hub_options = options_of(options)?;
    if !options.listen.ip().is_loopback() && hub_options.rules == Rules::default() {
        terminal::notice(&format!(
            "whoever reaches {} may read and write every register of every board, for IPbus knows no passwords; --rules says who may what",
            options.listen
        ));
    }
    let signals = Signals::install().context("signals")?;
    let server = HubServer::start(hub_options)?;
    terminal::notice(&format!("serving chtcp-2.0://{}?target=HOST:PORT", server.address()));
    let page = options.page.map(|address| page::serve(address, server.view())).transpose()?;
    if let Some(page) = &page {
        terminal::notice(&format!("page at http://{}/", page.address()));
    }
    let mut table = Table::new(json);
    while !signals.stop_requested() {
        signals.report_hangup();
        table.show(&server);
        std::thread::sleep(Duration::from_millis(20));
    }
    table.finish();
    let state = server.end(END_WITHIN);
    print(&value_of(&state), json, |_| summary(&state))?;
    Ok(CommandOutcome::Done)
}

fn refusals_of(refused: &Refusals) -> serde_json::Value {
    refused
        .iter()
        .map(|(code, count)| (code.code().to_string(), serde_json::json!(count)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn client_value(client: &ClientState) -> serde_json::Value {
    let counts = &client.counts;
    serde_json::json!({
        "address": client.address.map(|address| address.to_string()),
        "connections": client.connections,
        "asked": counts.asked,
        "answered": counts.answered,
        "refused": refusals_of(&counts.refused),
        "abandoned": counts.abandoned,
        "bytes_received": counts.bytes_received,
        "bytes_sent": counts.bytes_sent,
    })
}

fn target_value(state: &TargetState) -> serde_json::Value {
    let (packets, latencies) = (&state.counts.packets, &state.counts.latencies);
    serde_json::json!({
        "target": state.target.to_string(),
        "sent": packets.sent,
        "answered": latencies.count(),
        "requests_repeated": packets.requests_repeated,
        "replies_repeated": packets.replies_repeated,
        "statuses": packets.statuses,
        "strange": packets.strange,
        "refused": refusals_of(&state.counts.refused),
        "restarts": state.counts.restarts,
        "conflicts": state.counts.conflicts,
        "latency_us": {
            "p50_at_most": latencies.quantile_us(0.5),
            "p99_at_most": latencies.quantile_us(0.99),
        },
    })
}

fn value_of(state: &HubState) -> serde_json::Value {
    serde_json::json!({
        "clients": state.clients.iter().map(client_value).collect::<Vec<_>>(),
        "targets": state.targets.iter().map(target_value).collect::<Vec<_>>(),
        "is_ending": state.is_ending,
        "broken": state.broken,
        "turned_away": state.turned_away,
    })
}

/// Describes what a hub has done, for people: its targets, and the clients with errors.
fn summary(state: &HubState) -> String {
    let mut lines: Vec<String> = state.targets.iter().map(|target| target_line(target, None)).collect();
    for client in &state.clients {
        let counts = &client.counts;
        let who = client.address.map_or("others".to_owned(), |address| address.to_string());
        let wrong = match (counts.refused.total(), counts.abandoned) {
            (0, 0) => String::new(),
            (refused, abandoned) => format!(", {refused} refused, {abandoned} given up by the client"),
        };
        lines.push(format!(
            "client {who}: {} packets asked, {} answered{wrong}",
            counts.asked, counts.answered
        ));
    }
    if state.broken + state.turned_away > 0 {
        lines.push(format!(
            "connections: {} closed for what they sent, {} turned away because all connections or open files were in use",
            state.broken, state.turned_away
        ));
    }
    if lines.is_empty() {
        lines.push("nobody came".to_owned());
    }
    lines.join("\n")
}

fn target_line(state: &TargetState, rate_hz: Option<f64>) -> String {
    let (packets, latencies) = (&state.counts.packets, &state.counts.latencies);
    let rate = rate_hz.map_or(String::new(), |rate_hz| format!("  {:>8}/s", si(rate_hz).trim_end()));
    let latency = match (latencies.quantile_us(0.5), latencies.count()) {
        (Some(us), _) => format!("latency p50 at most {us} µs"),
        (None, 0) => "no answer".to_owned(),
        (None, _) => "latency p50 above 500 ms".to_owned(),
    };
    let again = packets.requests_repeated + packets.replies_repeated;
    let mut wrong = String::new();
    for (count, what) in [
        (again, "again"),
        (state.counts.refused.total(), "REFUSED"),
        (state.counts.restarts, "RESTARTS"),
        (state.counts.conflicts, "CONFLICTS: somebody else numbers its packets"),
    ] {
        if count > 0 {
            wrong += &format!("  {count} {what}");
        }
    }
    format!(
        "  {:21}  {:>8} packets{rate}  {latency}{wrong}",
        state.target.to_string(),
        si(packets.sent as f64).trim_end()
    )
}

/// Lines on a terminal that stay in place; elsewhere a line now and then.
struct Table {
    lines: Option<StandingLines>,
    is_silent: bool,
    shown: Instant,
    plain: Instant,
    last: HubState,
}

impl Table {
    fn new(json: bool) -> Table {
        let now = Instant::now();
        Table {
            lines: StandingLines::on_terminal(json),
            is_silent: json,
            shown: now,
            plain: now,
            last: HubState::default(),
        }
    }

    fn show(&mut self, server: &HubServer) {
        let passed = self.shown.elapsed();
        if self.is_silent || passed < SHOWN {
            return;
        }
        let state = server.state();
        let rate_hz = |target: &TargetState| {
            let before = self.last.targets.iter().find(|one| one.target == target.target);
            let sent = target.counts.packets.sent - before.map_or(0, |one| one.counts.packets.sent);
            sent as f64 / passed.as_secs_f64()
        };
        let mut texts: Vec<String> =
            state.targets.iter().map(|target| target_line(target, Some(rate_hz(target)))).collect();
        if texts.len() > MOST_LINES {
            let more = texts.split_off(MOST_LINES).len();
            texts.push(format!("  and {more} targets more"));
        }
        let connections: usize = state.clients.iter().map(|client| client.connections).sum();
        texts.push(format!("● {connections} clients, {} targets", state.targets.len()));
        if let Some(lines) = &mut self.lines {
            lines.show(texts);
        } else if self.plain.elapsed() >= PLAIN_EVERY && state != self.last {
            texts.iter().for_each(|text| terminal::notice(text));
            self.plain = Instant::now();
        }
        (self.shown, self.last) = (Instant::now(), state);
    }

    fn finish(self) {
        if let Some(lines) = self.lines {
            lines.finish();
        }
    }
}
