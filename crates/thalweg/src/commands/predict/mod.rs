//! `predict`: what the hops of a planned experiment are asked for, and what they lose.
//!
//! ```text
//!  configuration, --network ─► Plan ─┬─► chain of hops ─► text or JSON
//!  options of a hop ─────────────────┤
//!                                    └─► --sweep ─► table, JSON, SVG
//!  options of a hop ─► Hop, Triggers ─► Prediction ─► text or JSON
//!  --reproduce ─► a published installation, its figures beside
//! ```

mod chain_text;

use std::path::Path;

use anyhow::{Context, anyhow};
use thalweg_qualify::predict::chain::sweep::Sweep;
use thalweg_qualify::predict::chain::{ChainError, Plan};
use thalweg_qualify::predict::published::nectarcam::{self, NectarCam};
use thalweg_qualify::predict::published::{camera, cms, comet};
use thalweg_qualify::predict::{Bottleneck, HEAVY_TRAFFIC_LOAD, Hop, Prediction, Process, Triggers};
use thalweg_qualify::switch::frame::Frame;
use thalweg_run::config::Configuration;
use thalweg_run::plot::{Chart, Series, lines_svg, prediction_svg};

use super::Ended;
use crate::arguments::{self, PublishedTest, TriggerProcess};
use crate::report::{CommandOutcome, Failure, print, si};

/// Triggers that are simulated unless it is said: of one hop, of several, at each value of a sweep.
const HOP_TRIGGERS: u64 = 1_000_000;
const CHAIN_TRIGGERS: u64 = 100_000;
const SWEEP_TRIGGERS: u64 = 20_000;

pub(crate) fn predict(options: &arguments::Predict, json: bool) -> Ended {
    if let Some(test) = options.reproduce {
        return reproduce(test, options, json);
    }
    let plan = match &options.configuration {
        Some(file) => Some(configured(file, options)?),
        None => options.sweep.is_some().then(|| one_hop(options)).transpose()?,
    };
    match (plan, &options.sweep) {
        (Some(plan), Some(sweep)) => swept(&plan, sweep, options, json),
        (_, None) if options.svg.is_some() => {
            Err(usage(anyhow!("--svg draws a sweep; add --sweep KEY=FROM:TO:STEPS")))
        }
        (Some(plan), None) => {
            let triggers = options.simulate.unwrap_or(CHAIN_TRIGGERS);
            let prediction = plan.chain().and_then(|chain| chain.predict(triggers)).map_err(usage)?;
            print(&prediction, json, chain_text::of_prediction)?;
            Ok(CommandOutcome::Done)
        }
        (None, _) => {
            let (hop, triggers) = asked(options).map_err(Failure::Usage)?;
            let simulated = options.simulate.unwrap_or(HOP_TRIGGERS);
            print(&Prediction::new(&hop, &triggers, simulated)?, json, predicted)?;
            Ok(CommandOutcome::Done)
        }
    }
}

fn usage(error: impl Into<anyhow::Error>) -> Failure {
    Failure::Usage(error.into())
}

fn reproduce(test: PublishedTest, options: &arguments::Predict, json: bool) -> Ended {
    let triggers = options.simulate.unwrap_or(CHAIN_TRIGGERS);
    if options.svg.is_some() && test != PublishedTest::Nectarcam {
        return Err(usage(anyhow!(
            "--svg is for --sweep, and for --reproduce nectarcam, whose figure is drawn"
        )));
    }
    let computed: Result<_, ChainError> = match test {
        PublishedTest::Nectarcam => {
            if let Some(file) = &options.svg {
                std::fs::write(file, edges_svg()?).with_context(|| file.display().to_string())?;
            }
            print(&nectarcam::reproduce()?, json, reproduced)?;
            return Ok(CommandOutcome::Done);
        }
        PublishedTest::NectarcamCamera => camera::reproduce(triggers),
        PublishedTest::Comet => comet::reproduce(triggers),
        PublishedTest::Cms => cms::reproduce(triggers),
    };
    print(&computed?, json, chain_text::reproduction)?;
    Ok(CommandOutcome::Done)
}

/// The published figure, drawn.
fn edges_svg() -> Result<String, Failure> {
    let series = |curve: nectarcam::EdgeCurve| {
        let points = curve.points.iter().map(|(separation_s, events)| (separation_s * 1e6, *events as f64));
        Series { points: points.collect(), name: curve.name }
    };
    Ok(lines_svg(&Chart {
        title: "NectarCAM switch test: events without loss".to_owned(),
        subtitle: "1 kB at 1 Gb/s of each port into 10 Gb/s; a shared buffer of 330 MB, or 7000 packets for each input: half of the ports show which".to_owned(),
        x_title: "separation of events / µs".to_owned(),
        y_title: "events in a burst".to_owned(),
        logarithmic_x: false,
        logarithmic_y: true,
        series: nectarcam::edges()?.into_iter().map(series).collect(),
    }))
}

/// Returns what a configuration asks of the network that is described separately.
fn configured(file: &Path, options: &arguments::Predict) -> Result<Plan, Failure> {
    let configuration = Configuration::read(file)?;
    let network = options.network.as_deref().map(thalweg_run::predict::read_network).transpose()?;
    let mut plan = thalweg_run::predict::plan(&configuration, &network.unwrap_or_default(), options.rate_hz)?;
    plan.triggers.seed = options.seed.unwrap_or(plan.triggers.seed);
    Ok(plan)
}

/// The hop that the options describe, as a chain of its links and its output.
fn one_hop(options: &arguments::Predict) -> Result<Plan, Failure> {
    let (hop, triggers) = asked(options).map_err(Failure::Usage)?;
    Ok(Plan::of_hop(&hop, &triggers))
}

fn swept(plan: &Plan, sweep: &Sweep, options: &arguments::Predict, json: bool) -> Ended {
    let found = sweep.run(plan, options.simulate.unwrap_or(SWEEP_TRIGGERS)).map_err(usage)?;
    if let Some(file) = &options.svg {
        std::fs::write(file, prediction_svg(&found)).with_context(|| file.display().to_string())?;
    }
    print(&found, json, chain_text::swept)?;
    Ok(CommandOutcome::Done)
}

/// Returns the hop and the triggers of the arguments, checked.
fn asked(options: &arguments::Predict) -> anyhow::Result<(Hop, Triggers)> {
    let given = |option: Option<f64>, name: &str| option.with_context(|| format!("--{name} is missing"));
    let payload_bytes = options.payload.context("--payload is missing")?;
    let hop = Hop::new(
        options.links.context("--links is missing")?,
        given(options.link_rate, "link-rate")?,
        given(options.output_rate, "output-rate")?,
        given(options.depth, "depth")?,
        Frame::new(payload_bytes)?,
    )?;
    let process = match options.triggers {
        TriggerProcess::Poisson => {
            Process::Poisson { dead_time_ns: (options.dead_time_us * 1e3).round() as u64 }
        }
        TriggerProcess::Constant if options.dead_time_us > 0.0 => {
            return Err(anyhow!(
                "--dead-time-us is for random triggers; leave it out, or --triggers constant"
            ));
        }
        TriggerProcess::Constant => Process::Constant,
    };
    let rate_hz = given(options.rate_hz, "rate-hz")?;
    Ok((hop, Triggers { rate_hz, process, seed: options.seed.unwrap_or(1) }))
}

fn events(events: Option<u64>) -> String {
    events
        .map_or("any number: the links are no faster than the output".to_owned(), |events| events.to_string())
}

fn reproduced(test: &NectarCam) -> String {
    let NectarCam { links, payload_bytes, frame_bytes, .. } = test;
    let mut text = format!(
        "NectarCAM switch test: {links} boards of {payload_bytes} bytes at 1 Gb/s into 10 Gb/s, buffer {}B\n\
         frame on the wire            {frame_bytes} bytes, {:.2} us on its link\n\
         events back to back          {}\n\
         static limit                 {}Hz (a trigger each {:.2} us)\n\n\
         {:<32}{:>10} {:>14} {:>14}  difference\n",
        si(test.depth_bytes),
        test.link_time_s * 1e6,
        events(test.events_back_to_back),
        si(test.static_limit_hz),
        test.saturation_separation_s * 1e6,
        "beside",
        "published",
        "computed so",
        "on the wire",
    );
    for each in &test.published {
        text.push_str(&format!(
            "{:<32}{:>10.0} {:>14.0} {:>14.0}  {}\n",
            each.name, each.published, each.computed_its_way, each.on_wire_bytes, each.reason
        ));
    }
    text
}

fn predicted(p: &Prediction) -> String {
    let simulated = &p.simulated;
    let verdict = match p.bottleneck {
        Bottleneck::None => "nothing: no loss is expected".to_owned(),
        Bottleneck::Link => format!("the links: they carry at most {}Hz", si(p.static_limit_hz)),
        Bottleneck::Output => format!("the output: it carries at most {}Hz", si(p.static_limit_hz)),
        Bottleneck::Buffer => "the buffer: the mean rate fits, and groups of triggers do not".to_owned(),
    };
    let full = match p.full_probability {
        Some(_) if p.depth_events < 1.0 => "always: one event is more than the buffer holds".to_owned(),
        Some(probability) if p.output_load >= 1.0 => {
            format!("{probability:.2e} (what the output cannot carry)")
        }
        Some(probability) => format!("{probability:.2e} (heavy-traffic approximation)"),
        None => format!("not known below a load of {HEAVY_TRAFFIC_LOAD}; see the simulation"),
    };
    let lost = match simulated.loss_limit_95() {
        Some(limit) => {
            format!("none; below {limit:.1e} per trigger at 95 % confidence if losses are independent")
        }
        None => format!(
            "{} of {} frames ({:.3e}), of {} triggers",
            simulated.lost_frames, simulated.frames, simulated.loss_probability, simulated.damaged_triggers
        ),
    };
    format!(
        "triggers                {}Hz, {}Hz behind dead time\n\
         load of each link       {:.1} %\n\
         load of the output      {:.1} %\n\
         static limit            {}Hz (a trigger each {:.2} us)\n\
         events back to back     {}\n\
         buffer                  {:.1} events, {}s of triggers at the mean rate\n\
         queue full              {full}\n\
         simulated               {} triggers in {}s, seed {}\n\
         lost                    {lost}\n\
         highest level           {}B\n\
         limited by              {verdict}\n",
        si(p.offered_rate_hz),
        si(p.accepted_rate_hz),
        p.link_load * 100.0,
        p.output_load * 100.0,
        si(p.static_limit_hz),
        p.saturation_separation_s * 1e6,
        events(p.events_back_to_back),
        p.depth_events,
        seconds(p.depth_s),
        simulated.triggers,
        seconds(simulated.seconds),
        simulated.seed,
        si(simulated.peak_bytes),
    )
}

/// Seconds with a prefix: `12.3 m`.
fn seconds(seconds: f64) -> String {
    match seconds {
        micro if micro < 1e-3 => format!("{:.1} u", micro * 1e6),
        milli if milli < 1.0 => format!("{:.1} m", milli * 1e3),
        _ => si(seconds),
    }
}
