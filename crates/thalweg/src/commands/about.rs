//! The commands about the program itself: `bench`, `schema`, `completions`, `manual`.

use anyhow::anyhow;
use clap::CommandFactory;
use clap_complete::Shell;
use thalweg_bench::{self as bench, Measurement};

use super::Ended;
use crate::arguments::{self, Arguments};
use crate::report::{CommandOutcome, Failure, print, si};
use crate::terminal;

pub(crate) fn bench(options: &arguments::Bench, json: bool) -> Ended {
    if options.name == "list" {
        print(&bench::names(), json, |benches| {
            benches.iter().map(|bench| format!("{:<18} {}\n", bench.name, bench.about)).collect()
        })?;
        return Ok(CommandOutcome::Done);
    }
    let chosen: Vec<_> = bench::names()
        .into_iter()
        .filter(|each| options.name == "all" || options.name == each.name)
        .collect();
    if chosen.is_empty() {
        let names = bench::names().iter().map(|bench| bench.name).collect::<Vec<_>>().join(", ");
        return Err(Failure::Usage(anyhow!(
            "no bench is called \"{}\"; there are: list, all, {names}",
            options.name
        )));
    }
    let conditions = bench::Conditions {
        repeats: options.repeats,
        directory: options.directory.clone(),
        seconds: options.seconds,
        workers: options.workers,
    };
    for each in chosen {
        let measured = (each.measure)(&conditions)?;
        let measurement = Measurement { bench: each.name.to_owned(), ..measured.measurement };
        print(&measurement, json, figure)?;
        if let (Some(folder), Some(plot)) = (&options.plots, measured.plot) {
            std::fs::create_dir_all(folder)?;
            std::fs::write(folder.join(format!("{}.svg", each.name)), plot)?;
        }
    }
    Ok(CommandOutcome::Done)
}

/// A figure in a line; of a sweep, a line for each of its points.
fn figure(m: &Measurement) -> String {
    let Measurement { bench, value, unit, ratio, baseline, baseline_value, clock, cores, repeats, .. } = m;
    let range = m.ratio_range.map_or(String::new(), |[low, high]| format!(" [{low:.2} to {high:.2}]"));
    let (value, baseline_value) = (si(*value), si(*baseline_value));
    let mut text = format!(
        "{bench:<18} {value:>9}{unit}  {ratio:.3}{range} of {baseline} ({baseline_value}{unit}), {clock}, {cores} core(s), median of {repeats}",
    );
    for point in m.parameters.get("sweep").and_then(|sweep| sweep.as_array()).into_iter().flatten() {
        let number = |name: &str| point[name].as_f64().unwrap_or(f64::NAN);
        let parameters = point["parameters"].as_object().into_iter().flatten();
        let parameters: Vec<String> = parameters.map(|(name, value)| format!("{name} {value}")).collect();
        text.push_str(&format!(
            "\n  {:>9}{unit}  {:.3}  {}",
            si(number("value")),
            number("ratio"),
            parameters.join(", ")
        ));
    }
    for row in m.parameters.get("beside").and_then(|beside| beside.as_array()).into_iter().flatten() {
        text.push_str(&format!("\n  {}", beside(row)));
    }
    text
}

/// Formats a figure that was measured with the one that names the bench; an unmeasured one says why.
fn beside(row: &serde_json::Value) -> String {
    let text = |name: &str| row[name].as_str().unwrap_or_default();
    let number = |name: &str| row[name].as_f64().unwrap_or(f64::NAN);
    if let Some(why) = row["skipped"].as_str() {
        return format!("{:<12} skipped: {why}", text("what"));
    }
    let ratio = match row["ratio"].as_f64() {
        Some(ratio) => {
            format!("{ratio:.3} of {} ({}{})", text("baseline"), si(number("baseline_value")), text("unit"))
        }
        None => text("baseline").to_owned(),
    };
    let remark = Some(text("remark")).filter(|remark| !remark.is_empty());
    let remark = remark.map_or(String::new(), |remark| format!("; {remark}"));
    format!("{:<12} {:>9}{}  {ratio}{remark}", text("what"), si(number("value")), text("unit"))
}

/// Runs as one process of a bench that needs several.
pub(crate) fn node(kind: Option<&str>) -> Ended {
    bench::node(kind)?;
    Ok(CommandOutcome::Done)
}

pub(crate) fn schema() -> Ended {
    terminal::result(&serde_json::to_string_pretty(&thalweg_run::config::json_schema())?)?;
    Ok(CommandOutcome::Done)
}

pub(crate) fn completions(shell: Shell) -> Ended {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "thalweg", &mut script);
    terminal::result(String::from_utf8_lossy(&script).trim_end())?;
    Ok(CommandOutcome::Done)
}

pub(crate) fn manual() -> Ended {
    let mut page = Vec::new();
    clap_mangen::Man::new(Arguments::command()).render(&mut page)?;
    for command in Arguments::command().get_subcommands() {
        if command.get_name() == "help" {
            continue;
        }
        let named = command.clone().display_name(format!("thalweg {}", command.get_name()));
        let man = clap_mangen::Man::new(named);
        man.render_description_section(&mut page)?;
        man.render_options_section(&mut page)?;
        man.render_extra_section(&mut page)?;
    }
    terminal::result(String::from_utf8_lossy(&page).trim_end())?;
    Ok(CommandOutcome::Done)
}
