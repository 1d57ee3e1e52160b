//! The demonstration: a configuration that needs no file, no service, no board and no root.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use thalweg_data::ledger::{Loss, percent_of};
use thalweg_data::{StageRole, Unit};

use crate::config::{ConfigError, Configuration};
use crate::supervise::Summary;

/// The options of the demonstration.
#[derive(Clone, Debug)]
pub struct Demo {
    /// Emulated boards.
    pub boards: u16,
    /// Hits per second and channel.
    pub rate_hz: f64,
    /// Makes the physics reproducible.
    pub seed: u64,
    /// Fraction of datagrams that the network loses.
    pub loss: f64,
    /// The directory of the runs.
    pub directory: PathBuf,
    /// The file for every emitted hit.
    pub truth: Option<PathBuf>,
}

/// Channels of each board; two detectors per isotope can be distinguished in the picture.
const CHANNELS: u16 = 8;
/// Samples of a waveform: a whole pulse, and what comes before it.
const WAVEFORM_SAMPLES: u16 = 128;
/// Waveforms of each board per second: enough to look at, and few compared with the hits.
const WAVEFORMS_HZ: f64 = 200.0;
/// The number of triggered boards in addition to them, each on a connection of its own.
const TRACKER_BOARDS: u16 = 24;
/// The settings for the processing of hits.
const PROCESSING: &str = "[coincidence]\nwindow_ps = 100_000\n\n[clocks]\nreference = \"board-1\"\n\n";
/// The trigger rate of the triggered boards.
const TRIGGER_RATE_HZ: f64 = 500.0;

impl Demo {
    /// The configuration, as if it had been written by hand.
    ///
    /// # Errors
    /// When a value is not allowed, as 0 boards.
    pub fn configuration(&self) -> Result<Configuration, ConfigError> {
        let mut configuration = Configuration::parse(Path::new("(demo)"), self.text())?;
        configuration.truth.clone_from(&self.truth);
        Ok(configuration)
    }

    /// Describes what will be seen, in a few lines.
    pub fn story(&self) -> String {
        format!(
            "{} emulated board(s), {CHANNELS} channels each at {} hits/s, with ²²Na, ¹³⁷Cs, ⁶⁰Co and ²⁵²Cf in front of them:\n\
             UDP over loopback → receive → decode → time order → Arrow files in {directory}/\n\
             {TRACKER_BOARDS} triggered boards at {TRIGGER_RATE_HZ} Hz: TCP over loopback → receive → build events → Arrow files there, too",
            self.boards,
            self.rate_hz,
            directory = self.directory.display()
        )
    }

    /// Returns the number of hits of which one has its waveform.
    fn waveform_every(&self) -> u32 {
        (self.rate_hz * f64::from(CHANNELS) / WAVEFORMS_HZ).clamp(1.0, 1e9) as u32
    }

    /// Describes the outcome of the requested loss once the run is over; `None` where no loss was requested.
    pub fn loss_text(&self, summary: &Summary) -> Option<String> {
        let sent = summary.hits_sent.filter(|_| self.loss > 0.0)?;
        let lost = summary.hits_lost?;
        let percent = percent_of(lost, sent).unwrap_or(0.0);
        let is_by_numbers = |loss: &Loss| loss.stage.role() == StageRole::SequenceNumbers;
        let gaps = |unit| -> u64 {
            let on_the_wire = |loss: &&Loss| is_by_numbers(loss) && loss.unit == unit && loss.reason.is_gap();
            summary.losses.iter().filter(on_the_wire).map(|loss| loss.count).sum()
        };
        Some(format!(
            "--loss {}: {lost} of {sent} hits sent were lost on the way ({percent:.2} %); the boards' counters miss {} datagrams with {} frames",
            self.loss,
            gaps(Unit::Datagrams),
            gaps(Unit::Frames),
        ))
    }

    /// The file that `thalweg run` would take for the same run.
    pub fn text(&self) -> String {
        let mut text = "# The same as `thalweg demo`, as a file.\n[run]\ntitle = \"demo: 22Na, 137Cs, 60Co and 252Cf\"\n".to_owned();
        for board in 0..self.boards {
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                "\n[[source]]\nname = \"board-{number}\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\n\
                 channels = {CHANNELS}\nfirst_channel = {first}\nloss = {loss:?}\n\n\
                 [source.emulate]\nboard = {board}\nboards = {boards}\nseed = {seed}\nchannels = {CHANNELS}\n\
                 rate_hz = {rate:?}\nstatistics_interval_ms = 1000\n\
                 waveform_samples = {WAVEFORM_SAMPLES}\nwaveform_every = {every}\n",
                number = board + 1,
                first = board.saturating_mul(CHANNELS),
                loss = self.loss,
                boards = self.boards,
                seed = self.seed,
                rate = self.rate_hz,
                every = self.waveform_every(),
            );
        }
        let _ = write!(
            text,
            "\n[[source]]\nname = \"tracker\"\nformat = \"sitcp\"\nurl = \"emulate://\"\nprofile = \"recbe\"\n\
             named_by = \"connection\"\nboards = {TRACKER_BOARDS}\n\n\
             [trigger]\nprogram = \"poisson\"\nrate_hz = {TRIGGER_RATE_HZ:?}\nseed = {seed}\n\n\
             [build]\nfull = \"hold\"\n\n\
             {processing}\
             [record]\ndirectory = {directory:?}\n\
             tables = [\"hits\", \"extras\", \"waveforms\", \"statistics\", \"coincidences\", \"events\", \"fragments\", \"raw\"]\n",
            seed = self.seed,
            directory = self.directory,
            processing = if self.boards > 0 { PROCESSING } else { "" },
        );
        text
    }
}

/// The page of a demonstration: at `listen`, or at a free port of that address when the port is taken.
pub fn page(listen: &str) -> thalweg_monitor::Settings {
    let mut page = thalweg_monitor::Settings { or_any_port: true, ..thalweg_monitor::Settings::default() };
    page.serve_at(listen);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demonstration_is_a_valid_configuration() {
        let demo =
            Demo { boards: 3, rate_hz: 1e3, seed: 7, loss: 0.0, directory: "runs".into(), truth: None };
        let configuration = demo.configuration().expect("valid");
        assert_eq!(configuration.sources.len(), 3 + 1);
        assert_eq!(configuration.sources[2].format.channels(), (16, CHANNELS));
    }

    #[test]
    fn without_boards_of_hits_the_tracker_is_left() {
        let demo =
            Demo { boards: 0, rate_hz: 1e3, seed: 7, loss: 0.0, directory: "runs".into(), truth: None };
        assert_eq!(demo.configuration().expect("valid").sources.len(), 1);
    }
}
