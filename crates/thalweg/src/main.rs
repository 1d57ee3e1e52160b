//! The `thalweg` command: parse, plan, run. No rule of data taking lives here.
//!
//! ```text
//!  arguments ─► commands::… ─► thalweg_run ─► report (text or --json) ─► exit code
//! ```
//! Exit codes: 0 done, 1 the run or check failed, 2 bad usage or configuration.

mod arguments;
mod commands;
mod messages;
mod progress;
mod report;
mod signals;
mod terminal;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use thalweg_run::serve::MessageLog;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use arguments::{Arguments, Command};

/// Warnings and errors, every change of an alarm, and what a service does by itself.
const DEFAULT_LOG: &str = "warn,thalweg_monitor::alarm=info,thalweg_run::serve=info";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = EnvFilter::try_from_env("THALWEG_LOG").unwrap_or_else(|_| EnvFilter::new(DEFAULT_LOG));
    let messages = MessageLog::default();
    // Colours are for eyes: a file, a pipe or a journal keeps them as rubbish.
    let is_coloured =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let to_stderr = tracing_subscriber::fmt::layer()
        .with_writer(terminal::Log)
        .with_ansi(is_coloured)
        .without_time()
        .with_filter(filter);
    tracing_subscriber::registry().with(to_stderr).with(messages::PageLayer(messages.clone())).init();
    // Hundreds of boards are more sockets than a shell allows by default; a source that needs more than this says so.
    if let Err(cause) = thalweg_run::raise_open_files() {
        tracing::warn!("the limit of open files stays as it is: {cause}");
    }
    let json = arguments.json;
    let result = match arguments.command {
        Command::Demo(options) => commands::demo(&options, json, &messages),
        Command::Run(options) => commands::run(&options, json, &messages),
        Command::Serve(options) => commands::serve(&options, json, &messages),
        Command::Emulate(options) => commands::emulate(&options, json),
        Command::Replay(options) => commands::replay(&options, json, &messages),
        Command::Verify(options) => commands::verify(&options, json),
        Command::Recover(options) => commands::recover(&options, json),
        Command::Inspect(options) => commands::inspect(&options, json),
        Command::Ship(options) => commands::ship(&options, json),
        Command::Receive(options) => commands::receive(&options, json),
        Command::Plot(options) => commands::plot(&options, json),
        Command::Export(options) => commands::export(&options, json),
        Command::Import(options) => commands::import(&options, json),
        Command::Runs(options) => commands::runs(&options, json),
        Command::Board(options) => commands::board(&options, json),
        Command::Ipbus(options) => commands::ipbus(&options, json),
        Command::Hub(options) => commands::hub(&options, json),
        Command::Doctor(options) => commands::doctor(&options, json),
        Command::Predict(options) => commands::predict(&options, json),
        Command::Qualify(options) => commands::qualify(&options, json),
        Command::Bench(options) => commands::bench(&options, json),
        Command::Node { kind } => commands::node(kind.as_deref()),
        Command::Schema => commands::schema(),
        Command::Completions { shell } => commands::completions(shell),
        Command::Manual => commands::manual(),
    };
    let code = report::exit_code(result);
    terminal::flush();
    code
}
