//! What a testbed is made as, and how it is written on a command line.
//!
//! ```text
//!  rate=800Mbit,depth=8MB,datagram=8972,sources=16,burst=40kB,queues=shared,outputs=1,stacking=1 ─► TestbedSettings
//!  blind=7,datagram=8972 ─► the same, drawn by the seed
//! ```

use std::str::FromStr;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use schemars::JsonSchema;
use serde::Serialize;

use crate::predict::quantity;
use crate::switch::fit::Buffering;
use crate::switch::frame::Frame;

/// The bytes that a shaper may send at once after a rest, unless stated: a stall of so many bytes is caught up.
const BURST_BYTES: u64 = 40_000;
const SOURCES: u16 = 16;
/// Sources have an address each.
const MOST_SOURCES: u16 = 512;
const MOST_OUTPUTS: u16 = 2;
const MOST_STACKING: u16 = 3;
const KEYS: &str = "rate, depth, datagram, sources, burst, queues, outputs, stacking, blind";

/// What is made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TestbedSettings {
    /// Rate of the output, bits per second.
    pub rate_bits_per_s: f64,
    /// What waits in each queue at most, bytes as the kernel counts them: headers of Ethernet, IP and UDP with the payload.
    pub depth_bytes: u64,
    /// What the output may send at once after a rest, bytes.
    pub burst_bytes: u64,
    /// Sources of all outputs.
    pub sources: u16,
    /// UDP payload of each datagram, bytes.
    pub datagram_bytes: u32,
    /// One queue at each output, or one for each input.
    pub queues: Buffering,
    /// Outputs, each with queues and a rate of its own; sources send to them in turn.
    pub outputs: u16,
    /// Sources behind each input, which have its address; their ports differ.
    pub stacking: u16,
    /// The seed by which rate, depth and queues were drawn; whoever measures the device is not given them then.
    pub blind: Option<u64>,
}

impl TestbedSettings {
    /// Sources that send to one output.
    pub fn sources_per_output(&self) -> u16 {
        self.sources / self.outputs
    }

    /// Inputs that lead to one output of so many of its sources.
    fn inputs(&self, sources: u32) -> u64 {
        u64::from(sources.div_ceil(u32::from(self.stacking)))
    }

    /// What fits into a queue: its limit, and its fraction of what the output sends at once.
    pub fn true_depth_bytes(&self) -> u64 {
        match self.queues {
            Buffering::Shared => self.depth_bytes + self.burst_bytes,
            Buffering::PerSource => {
                self.depth_bytes + self.burst_bytes / self.inputs(u32::from(self.sources_per_output()))
            }
        }
    }

    /// What fits into the queues of one output.
    pub fn whole_depth_bytes(&self) -> u64 {
        self.depth_of_bytes(u32::from(self.sources_per_output()))
    }

    /// What fits into the queues of one output of so many of its sources that send together.
    pub fn depth_of_bytes(&self, sources: u32) -> u64 {
        match self.queues {
            Buffering::Shared => self.true_depth_bytes(),
            Buffering::PerSource => self.depth_bytes * self.inputs(sources) + self.burst_bytes,
        }
    }

    /// Draws rate, depth and queues: 60 to 100 Mb/s of datagrams below 2 kB and 400 to 800 Mb/s of longer ones, which a core can send
    /// several times as fast, and room for 20 to 60 events, or for 60 to 140 frames of each source.
    fn drawn(seed: u64, datagram_bytes: u32, written: &Written) -> TestbedSettings {
        let (sources, outputs, stacking) = (written.sources(), written.outputs(), written.stacking());
        let mut random = Pcg64::seed_from_u64(seed);
        let rates = if datagram_bytes < 2000 { 60e6..100e6 } else { 400e6..800e6 };
        let rate_bits_per_s: f64 = random.random_range(rates);
        let queues = if random.random() { Buffering::Shared } else { Buffering::PerSource };
        let frame_bytes = f64::from(Frame::new(datagram_bytes).map_or(0, Frame::qdisc_bytes));
        // A queue takes whole frames: one of 20 frames is known within 5 % at best.
        let (event_bytes, events) = match queues {
            Buffering::Shared => {
                (frame_bytes * f64::from(sources / outputs), random.random_range(20.0..60.0_f64))
            }
            Buffering::PerSource => (frame_bytes * f64::from(stacking), random.random_range(60.0..140.0_f64)),
        };
        TestbedSettings {
            rate_bits_per_s: rate_bits_per_s.round(),
            depth_bytes: (events * event_bytes) as u64,
            burst_bytes: written.burst_bytes(),
            sources,
            datagram_bytes,
            queues,
            outputs,
            stacking,
            blind: Some(seed),
        }
    }
}

/// A testbed that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// It has no key.
    #[error("`{0}` is no KEY=VALUE")]
    Pair(String),
    /// There is no such key.
    #[error("there is no `{0}`; there are {KEYS}")]
    Key(String),
    /// A value.
    #[error("{key}: {why}")]
    Value {
        /// Of which key.
        key: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A key that is needed.
    #[error("`{key}` is missing; write for example {key}={example}")]
    Missing {
        /// Which.
        key: &'static str,
        /// What could be written.
        example: &'static str,
    },
    /// A key that is drawn.
    #[error("`{0}` is drawn by the seed of `blind`; leave it out")]
    Drawn(&'static str),
}

#[derive(Default)]
struct Written {
    rate_bits_per_s: Option<f64>,
    depth_bytes: Option<u64>,
    burst_bytes: Option<u64>,
    sources: Option<u16>,
    datagram_bytes: Option<u32>,
    queues: Option<Buffering>,
    outputs: Option<u16>,
    stacking: Option<u16>,
    blind: Option<u64>,
}

impl Written {
    fn sources(&self) -> u16 {
        self.sources.unwrap_or(SOURCES)
    }

    fn outputs(&self) -> u16 {
        self.outputs.unwrap_or(1)
    }

    fn stacking(&self) -> u16 {
        self.stacking.unwrap_or(1)
    }

    fn burst_bytes(&self) -> u64 {
        self.burst_bytes.unwrap_or(BURST_BYTES)
    }

    /// Sources are divided among outputs, and stacked behind inputs, without a rest. An input has one output.
    fn check(&self) -> Result<(), SettingsError> {
        let (sources, outputs, stacking) = (self.sources(), self.outputs(), self.stacking());
        let wrong = |key, why| Err(SettingsError::Value { key, why });
        if !sources.is_multiple_of(outputs) {
            let why = format!("{sources} sources cannot be divided among {outputs} outputs");
            return wrong("outputs", format!("{why}; use an even number of sources"));
        }
        if !sources.is_multiple_of(stacking) {
            let why = format!("{sources} sources cannot be stacked by {stacking}");
            return wrong("stacking", format!("{why}; use a multiple of {stacking} sources"));
        }
        match outputs > 1 && stacking > 1 {
            true => wrong(
                "stacking",
                "sources of one input send to one output; leave one of stacking and outputs at 1".to_owned(),
            ),
            false => Ok(()),
        }
    }

    fn take(&mut self, key: &str, value: &str) -> Result<(), SettingsError> {
        let bytes = |key| {
            let bytes = quantity::bytes(value);
            bytes.map_err(|error| SettingsError::Value { key, why: error.to_string() })
        };
        match key {
            "rate" => {
                let rate = quantity::bits_per_second(value);
                let wrong = |error: quantity::QuantityError| SettingsError::Value {
                    key: "rate",
                    why: error.to_string(),
                };
                self.rate_bits_per_s = Some(rate.map_err(wrong)?);
            }
            "depth" => self.depth_bytes = Some(bytes("depth")? as u64),
            "burst" => self.burst_bytes = Some(bytes("burst")? as u64),
            // A plain number, as of all datagrams, is one of bytes.
            "datagram" => {
                self.datagram_bytes =
                    Some(value.parse().or_else(|_| bytes("datagram").map(|bytes| bytes as u32))?)
            }
            "sources" => self.sources = Some(number("sources", value, 1, MOST_SOURCES)?),
            "outputs" => self.outputs = Some(number("outputs", value, 1, MOST_OUTPUTS)?),
            "stacking" => self.stacking = Some(number("stacking", value, 1, MOST_STACKING)?),
            "blind" => self.blind = Some(number("blind", value, 0, u64::MAX)?),
            "queues" => {
                self.queues = Some(match value {
                    "shared" => Buffering::Shared,
                    "per-input" => Buffering::PerSource,
                    _ => {
                        let why = format!("\"{value}\" is neither shared nor per-input");
                        return Err(SettingsError::Value { key: "queues", why });
                    }
                });
            }
            _ => return Err(SettingsError::Key(key.to_owned())),
        }
        Ok(())
    }
}

fn number<N: FromStr + PartialOrd + std::fmt::Display>(
    key: &'static str,
    value: &str,
    least: N,
    most: N,
) -> Result<N, SettingsError> {
    let number = value.parse().ok().filter(|number: &N| *number >= least && *number <= most);
    let why = || format!("\"{value}\" is no number from {least} to {most}");
    match number {
        Some(number) => Ok(number),
        None => Err(SettingsError::Value { key, why: why() }),
    }
}

impl FromStr for TestbedSettings {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<TestbedSettings, SettingsError> {
        let mut written = Written::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or(SettingsError::Pair(part.to_owned()))?;
            written.take(key, value)?;
        }
        let missing = |key, example| SettingsError::Missing { key, example };
        written.check()?;
        if let Some(seed) = written.blind {
            let given = [
                ("rate", written.rate_bits_per_s.is_some()),
                ("depth", written.depth_bytes.is_some()),
                ("queues", written.queues.is_some()),
            ];
            return match given.iter().find(|(_, is_given)| *is_given) {
                Some((key, _)) => Err(SettingsError::Drawn(key)),
                None => {
                    let datagram_bytes = written.datagram_bytes.ok_or(missing("datagram", "8972"))?;
                    Ok(TestbedSettings::drawn(seed, datagram_bytes, &written))
                }
            };
        }
        Ok(TestbedSettings {
            rate_bits_per_s: written.rate_bits_per_s.ok_or(missing("rate", "800Mbit"))?,
            depth_bytes: written.depth_bytes.ok_or(missing("depth", "8MB"))?,
            burst_bytes: written.burst_bytes(),
            sources: written.sources(),
            datagram_bytes: written.datagram_bytes.ok_or(missing("datagram", "8972"))?,
            queues: written.queues.unwrap_or(Buffering::Shared),
            outputs: written.outputs(),
            stacking: written.stacking(),
            blind: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_testbed_is_read_as_it_is_written_and_what_is_missing_is_named() {
        let read = |text: &str| text.parse::<TestbedSettings>();
        let settings = read("rate=800Mbit,depth=8MB,datagram=8972").expect("complete");
        assert_eq!(
            (settings.sources, settings.burst_bytes, settings.true_depth_bytes()),
            (16, 40_000, 8_040_000)
        );
        let queues =
            read("rate=800Mbit,depth=400kB,datagram=8972,queues=per-input,sources=8").expect("complete");
        assert_eq!((queues.true_depth_bytes(), queues.whole_depth_bytes()), (405_000, 3_240_000));
        let two = read("rate=800Mbit,depth=400kB,datagram=8972,queues=per-input,sources=8,outputs=2");
        let two = two.expect("complete");
        assert_eq!((two.sources_per_output(), two.whole_depth_bytes()), (4, 1_640_000), "of one output");
        let three = read("rate=800Mbit,depth=400kB,datagram=8972,queues=per-input,sources=12,stacking=3");
        let three = three.expect("complete");
        let depths = (three.true_depth_bytes(), three.whole_depth_bytes(), three.depth_of_bytes(6));
        assert_eq!(depths, (410_000, 1_640_000, 840_000), "of four inputs, and of two");
        for (text, word) in [
            ("rate=800Mbit,depth=8MB,datagram=8972,sources=8,stacking=3", "use a multiple of 3 sources"),
            (
                "rate=8Mbit,depth=8MB,datagram=89,stacking=2,outputs=2",
                "leave one of stacking and outputs at 1",
            ),
            ("rate=800Mbit,depth=8MB,datagram=8972,sources=5,outputs=2", "5 sources cannot be divided"),
            ("outputs=3", "outputs: \"3\" is no number from 1 to 2"),
            ("rate=800,depth=8MB,datagram=8972", "\"800\" has no unit"),
            ("rate=800Mbit,depth=8MB", "`datagram` is missing; write for example datagram=8972"),
            ("rate=800Mbit,depth=8MB,datagram=1,queues=all", "neither shared nor per-input"),
            ("blind=7", "`datagram` is missing"),
            ("blind=7,depth=8MB,datagram=8972", "`depth` is drawn by the seed"),
            ("sources=0", "sources: \"0\" is no number from 1 to 512"),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn a_seed_draws_the_same_device_and_seeds_draw_both_kinds() {
        let drawn =
            |seed: u64| format!("blind={seed},datagram=8972").parse::<TestbedSettings>().expect("complete");
        assert_eq!(drawn(7), drawn(7));
        let all: Vec<TestbedSettings> = (0..64).map(drawn).collect();
        assert!(all.iter().any(|each| each.queues == Buffering::Shared));
        assert!(all.iter().any(|each| each.queues == Buffering::PerSource));
        assert!(
            all.iter()
                .all(|each| (400e6..=800e6).contains(&each.rate_bits_per_s) && each.depth_bytes > 180_000)
        );
    }
}
