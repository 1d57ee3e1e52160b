//! The parameter tree of a board: nodes with handles, names, types and values.
//!
//! ```text
//!  /                        DIGITIZER
//!  ├─ par/numch …           PARAMETER
//!  ├─ cmd/armacquisition …  COMMAND
//!  ├─ ch/0..n/par/chenable …
//!  └─ endpoint/
//!     ├─ par/activeendpoint
//!     ├─ raw (port) or rawudp
//!     └─ dpppsd/stats …     ENDPOINT
//! ```
//! Names are compared in lower case. A path element `a..b` stands for all nodes with those numbers.

use std::collections::HashMap;

use serde_json::json;

use crate::digitizer2::emulate::settings::{Firmware, Rates, Transport};
use crate::digitizer2::emulate::{Settings, buffer_bytes};

/// Most nodes in one range: otherwise, two ranges in one path could have millions.
const RANGE_MAXIMUM: usize = 4096;

/// The type of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeType {
    /// The root.
    Digitizer,
    /// A folder of nodes.
    Folder,
    /// A channel.
    Channel,
    /// A value.
    Parameter,
    /// A value that describes its parent.
    Attribute,
    /// A command.
    Command,
    /// An endpoint of data.
    Endpoint,
}

impl NodeType {
    /// The name on the wire.
    pub fn word(self) -> &'static str {
        match self {
            NodeType::Digitizer => "DIGITIZER",
            NodeType::Folder => "FOLDER",
            NodeType::Channel => "CHANNEL",
            NodeType::Parameter => "PARAMETER",
            NodeType::Attribute => "ATTRIBUTE",
            NodeType::Command => "COMMAND",
            NodeType::Endpoint => "ENDPOINT",
        }
    }
}

/// Why the tree cannot serve a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// There is no such handle.
    #[error("no node has the handle {0}; ask for handles anew after connecting")]
    Handle(u64),
    /// There is no such path.
    #[error("no node at `{0}`; getDeviceTree lists them")]
    Path(String),
    /// The node has no value of its own.
    #[error("`{path}` is a {kind} and has no value")]
    NoValue {
        /// The node.
        path: String,
        /// Its type.
        kind: &'static str,
    },
    /// The value cannot be set.
    #[error("`{0}` can be read only")]
    ReadOnly(String),
    /// The node does not accept this value.
    #[error("`{path}` cannot be `{value}`; allowed is {allowed}")]
    Value {
        /// The node.
        path: String,
        /// The value in the request.
        value: String,
        /// The accepted values.
        allowed: String,
    },
    /// The node is not a command.
    #[error("`{0}` is not a command")]
    NotCommand(String),
}

/// The values that a parameter accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Takes {
    Nothing,
    Anything,
    Boolean,
    /// Rounded down to a multiple of `step`, from 0.
    Number {
        low: f64,
        high: f64,
        step: f64,
    },
    OneOf(&'static [&'static str]),
}

#[derive(Clone, Debug)]
struct Node {
    parent: usize,
    name: String,
    kind: NodeType,
    value: String,
    default: String,
    takes: Takes,
    children: Vec<usize>,
}

/// The tree. Handles are indices plus one; 0 is also the root: vendor clients use it before they know a handle.
#[derive(Clone, Debug)]
pub struct Tree {
    nodes: Vec<Node>,
    index: HashMap<(usize, String), usize>,
}

const TRIGGER_SOURCES: &[&str] = &[
    "Disabled",
    "Ch64Trigger",
    "ChSelfTrigger",
    "SwTrg",
    "ADCOverSaturation",
    "ADCUnderSaturation",
    "ExternalInhibit",
    "TRGIN",
    "GlobalTriggerSource",
    "LVDS",
    "ITLA",
    "ITLB",
    "AllEvents",
    "OnRequest",
];
/// Samples are counted in words of four.
const SAMPLES_STEP: f64 = 4.0;
const WAVE_SAVING: &[&str] = &["Always", "OnRequest"];

impl Tree {
    /// Creates the tree of the board with these settings, whose TCP data port is `data_port`.
    pub fn new(settings: &Settings, data_port: u16) -> Tree {
        let mut tree = Tree { nodes: Vec::new(), index: HashMap::new() };
        let root = tree.add(0, "", NodeType::Digitizer, "", Takes::Nothing);
        tree.add_parameters(root, settings);
        let commands = tree.add(root, "cmd", NodeType::Folder, "", Takes::Nothing);
        for name in [
            "armacquisition",
            "disarmacquisition",
            "swstartacquisition",
            "swstopacquisition",
            "sendswtrigger",
            "cleardata",
            "reset",
            "reloadcalibration",
        ] {
            tree.add(commands, name, NodeType::Command, "", Takes::Nothing);
        }
        let channels = tree.add(root, "ch", NodeType::Folder, "", Takes::Nothing);
        for channel in 0..settings.channels {
            tree.add_channel(channels, channel, settings);
        }
        tree.add_endpoints(root, settings, data_port);
        tree
    }

    fn add(&mut self, parent: usize, name: &str, kind: NodeType, value: &str, takes: Takes) -> usize {
        let index = self.nodes.len();
        let (name, value) = (name.to_string(), value.to_string());
        if index > 0 {
            self.nodes[parent].children.push(index);
            self.index.insert((parent, name.clone()), index);
        }
        self.nodes.push(Node {
            parent,
            name,
            kind,
            default: value.clone(),
            value,
            takes,
            children: Vec::new(),
        });
        index
    }

    fn add_parameters(&mut self, root: usize, settings: &Settings) {
        let folder = self.add(root, "par", NodeType::Folder, "", Takes::Nothing);
        let (facts, fast) = (settings.facts(), settings.sampling_mhz >= 500);
        let firmware = match settings.firmware {
            Firmware::Psd => "DPP_PSD",
            Firmware::Pha => "DPP_PHA",
            Firmware::Scope => "Scope",
            Firmware::Opendpp => "DPP_OPEN",
        };
        let fixed = |text: &str| (text.to_string(), Takes::Nothing);
        for (name, (value, takes)) in [
            ("numch", fixed(&settings.channels.to_string())),
            ("adc_samplrate", fixed(&settings.sampling_mhz.to_string())),
            ("adc_nbit", fixed(if fast { "14" } else { "16" })),
            ("modelname", fixed(&facts.model)),
            ("modelcode", fixed(if fast { "WVX2730XAAAA" } else { "WVX2740XAAAA" })),
            ("familycode", fixed(if fast { "2730" } else { "2740" })),
            ("formfactor", fixed("VME64X")),
            ("serialnum", fixed(&facts.serial)),
            ("cupver", fixed("2025091500")),
            ("fpga_fwver", fixed("1.0.0")),
            ("fwtype", fixed(firmware)),
            ("license", fixed("emulated")),
            ("licensestatus", fixed("Licensed")),
            ("inputrange", fixed("2")),
            ("acquisitionstatus", fixed("0")),
            ("errorflags", fixed("0")),
            ("maxrawdatasize", fixed(&buffer_bytes(settings).max(1 << 20).to_string())),
            ("registermisc", (String::new(), Takes::Anything)),
            ("registeruser", (String::new(), Takes::Anything)),
            (
                "recordlengths",
                (
                    settings.waveform_samples.to_string(),
                    Takes::Number { low: 0.0, high: 8188.0, step: SAMPLES_STEP },
                ),
            ),
            (
                "pretriggers",
                (
                    settings.samples_before_trigger().to_string(),
                    Takes::Number { low: 0.0, high: 8188.0, step: SAMPLES_STEP },
                ),
            ),
            ("decimationfactor", fixed(&settings.decimation.to_string())),
            ("enstatevents", (boolean(settings.statistics_interval_ms > 0), Takes::Boolean)),
            ("startsource", ("SWcmd".into(), Takes::Anything)),
            ("clocksource", ("Internal".into(), Takes::Anything)),
            ("globaltriggersource", ("SwTrg".into(), Takes::Anything)),
            ("acqtriggersource", ("SwTrg".into(), Takes::Anything)),
            ("iolevel", ("NIM".into(), Takes::OneOf(&["NIM", "TTL"]))),
        ] {
            self.add(folder, name, NodeType::Parameter, &value, takes);
        }
    }

    fn add_channel(&mut self, channels: usize, channel: u16, settings: &Settings) {
        let node = self.add(channels, &channel.to_string(), NodeType::Channel, "", Takes::Nothing);
        let folder = self.add(node, "par", NodeType::Folder, "", Takes::Nothing);
        let waves = settings.waveform_samples > 0;
        let samples = settings.waveform_samples.to_string();
        let number = |low: f64, high: f64, step: f64| Takes::Number { low, high, step };
        let gate = settings.detector.gate_ns;
        let period_ns = 1000.0 / f64::from(settings.sampling_mhz);
        for (name, value, takes) in [
            ("chenable", "True".to_string(), Takes::Boolean),
            ("eventtriggersource", "ChSelfTrigger".into(), Takes::OneOf(TRIGGER_SOURCES)),
            (
                "wavetriggersource",
                if waves { "ChSelfTrigger" } else { "Disabled" }.into(),
                Takes::OneOf(TRIGGER_SOURCES),
            ),
            ("wavesaving", "Always".into(), Takes::OneOf(WAVE_SAVING)),
            ("chrecordlengths", samples, number(0.0, 8188.0, SAMPLES_STEP)),
            (
                "chpretriggers",
                settings.samples_before_trigger().to_string(),
                number(0.0, 8188.0, SAMPLES_STEP),
            ),
            ("chgain", "0".into(), number(0.0, 40.0, 0.5)),
            ("dcoffset", "20".into(), number(0.0, 100.0, 0.1)),
            ("triggerthr", "20".into(), number(0.0, 65_535.0, 1.0)),
            ("pulsepolarity", "Positive".into(), Takes::OneOf(&["Positive", "Negative"])),
            ("gatelonglengtht", gate.to_string(), number(0.0, 1e6, period_ns)),
            ("gateshortlengtht", (gate / 5.0).to_string(), number(0.0, 1e6, period_ns)),
            ("selftrgrate", format!("{:.0}", settings.channel_rate_hz(channel)), Takes::Nothing),
            ("chstatus", "0".into(), Takes::Nothing),
        ] {
            self.add(folder, name, NodeType::Parameter, &value, takes);
        }
    }

    fn add_endpoints(&mut self, root: usize, settings: &Settings, data_port: u16) {
        let folder = self.add(root, "endpoint", NodeType::Folder, "", Takes::Nothing);
        let parameters = self.add(folder, "par", NodeType::Folder, "", Takes::Nothing);
        let hardware = match settings.transport {
            Transport::Udp => "rawudp",
            Transport::Tcp => "raw",
        };
        let (software, names): (_, &'static [&'static str]) = match settings.firmware {
            Firmware::Psd => ("dpppsd", &["raw", "rawudp", "dpppsd"]),
            Firmware::Pha => ("dpppha", &["raw", "rawudp", "dpppha"]),
            Firmware::Scope => ("scope", &["raw", "rawudp", "scope"]),
            Firmware::Opendpp => ("opendpp", &["raw", "rawudp", "opendpp"]),
        };
        self.add(parameters, "activeendpoint", NodeType::Parameter, hardware, Takes::OneOf(names));
        let raw = self.add(folder, hardware, NodeType::Endpoint, "", Takes::Nothing);
        let port = if settings.transport == Transport::Tcp { data_port } else { super::UDP_DATA_PORT };
        self.add(raw, "port", NodeType::Attribute, &port.to_string(), Takes::Nothing);
        let software = self.add(folder, software, NodeType::Endpoint, "", Takes::Nothing);
        self.add(software, "stats", NodeType::Endpoint, "", Takes::Nothing);
    }

    /// The handle of the root.
    pub fn root(&self) -> u64 {
        1
    }

    fn node_of(&self, handle: u64) -> Result<usize, TreeError> {
        let index = usize::try_from(handle.saturating_sub(1)).ok();
        index.filter(|index| *index < self.nodes.len()).ok_or(TreeError::Handle(handle))
    }

    /// All nodes at a path from `handle`: one, or several if the path has a range.
    fn nodes_at(&self, handle: u64, path: &str) -> Result<Vec<usize>, TreeError> {
        let mut found = vec![self.node_of(handle)?];
        let lower = path.to_lowercase();
        for element in lower.split('/').filter(|element| !element.is_empty()) {
            let names = names_of(element).ok_or_else(|| TreeError::Path(path.into()))?;
            let mut next = Vec::new();
            for node in found {
                for name in &names {
                    let child = self.index.get(&(node, name.clone()));
                    next.push(*child.ok_or_else(|| TreeError::Path(path.into()))?);
                    if next.len() > RANGE_MAXIMUM {
                        return Err(TreeError::Path(path.into()));
                    }
                }
            }
            found = next;
        }
        Ok(found)
    }

    /// The node at a path.
    ///
    /// # Errors
    /// When there is none, or there are several.
    pub fn handle_at(&self, handle: u64, path: &str) -> Result<u64, TreeError> {
        match self.nodes_at(handle, path)?.as_slice() {
            [node] => Ok(*node as u64 + 1),
            _ => Err(TreeError::Path(path.into())),
        }
    }

    /// Handles of the child nodes.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn children(&self, handle: u64, path: &str) -> Result<Vec<u64>, TreeError> {
        let node = self.node_of(self.handle_at(handle, path)?)?;
        Ok(self.nodes[node].children.iter().map(|child| *child as u64 + 1).collect())
    }

    /// The parent of a node; that of the root is itself.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn parent(&self, handle: u64, path: &str) -> Result<u64, TreeError> {
        let node = self.node_of(self.handle_at(handle, path)?)?;
        Ok(self.nodes[node].parent as u64 + 1)
    }

    /// The path of a node from the root.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn path(&self, handle: u64) -> Result<String, TreeError> {
        Ok(self.path_of(self.node_of(handle)?))
    }

    fn path_of(&self, mut node: usize) -> String {
        let mut names = Vec::new();
        while node != 0 {
            names.push(self.nodes[node].name.as_str());
            node = self.nodes[node].parent;
        }
        names.iter().rev().fold(String::new(), |path, name| path + "/" + name)
    }

    /// Name and type of a node.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn properties(&self, handle: u64, path: &str) -> Result<(&str, NodeType), TreeError> {
        let node = &self.nodes[self.node_of(self.handle_at(handle, path)?)?];
        Ok((&node.name, node.kind))
    }

    /// The values at a path: one, or one per node of a range.
    ///
    /// # Errors
    /// When there is no such node, or it has no value.
    pub fn values(&self, handle: u64, path: &str) -> Result<Vec<String>, TreeError> {
        let value = |node: usize| match self.nodes[node].kind {
            NodeType::Parameter | NodeType::Attribute => Ok(self.nodes[node].value.clone()),
            kind => Err(TreeError::NoValue { path: self.path_of(node), kind: kind.word() }),
        };
        self.nodes_at(handle, path)?.into_iter().map(value).collect()
    }

    /// The value of one node, by its path from the root.
    pub fn value(&self, path: &str) -> Option<&str> {
        let node = self.nodes_at(self.root(), path).ok()?;
        node.first().map(|node| self.nodes[*node].value.as_str())
    }

    /// Sets the value of each node at a path; either all or none.
    ///
    /// # Errors
    /// When there is no such node, it cannot be set, or it does not accept the value.
    pub fn set(&mut self, handle: u64, path: &str, value: &str) -> Result<(), TreeError> {
        let nodes = self.nodes_at(handle, path)?;
        let values: Vec<String> =
            nodes.iter().map(|node| self.accepted(*node, value)).collect::<Result<_, _>>()?;
        for (node, value) in nodes.into_iter().zip(values) {
            self.nodes[node].value = value;
        }
        Ok(())
    }

    /// Converts a value to the form in which a node keeps it.
    fn accepted(&self, node: usize, value: &str) -> Result<String, TreeError> {
        let refused =
            |allowed: String| TreeError::Value { path: self.path_of(node), value: value.into(), allowed };
        match self.nodes[node].takes {
            Takes::Nothing => Err(TreeError::ReadOnly(self.path_of(node))),
            Takes::Anything => Ok(value.to_string()),
            Takes::Boolean if value.eq_ignore_ascii_case("true") || value == "1" => Ok("True".into()),
            Takes::Boolean if value.eq_ignore_ascii_case("false") || value == "0" => Ok("False".into()),
            Takes::Boolean => Err(refused("True or False".into())),
            Takes::Number { low, high, step } => match value.trim().parse::<f64>() {
                Ok(number) if (low..=high).contains(&number) => Ok(rounded(number, step)),
                _ => Err(refused(format!("a number from {low} to {high}"))),
            },
            Takes::OneOf(words) => words
                .iter()
                .find(|word| word.eq_ignore_ascii_case(value))
                .map(|word| word.to_string())
                .ok_or_else(|| refused(words.join(", "))),
        }
    }

    /// The name of a command node.
    ///
    /// # Errors
    /// When there is no such node, or it is not a command.
    pub fn command(&self, handle: u64, path: &str) -> Result<&str, TreeError> {
        let node = &self.nodes[self.node_of(self.handle_at(handle, path)?)?];
        if node.kind == NodeType::Command { Ok(&node.name) } else { Err(TreeError::NotCommand(path.into())) }
    }

    /// Resets all values to those after power-on.
    pub fn reset(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.value.clone_from(&node.default));
    }

    /// The whole tree as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        self.node_json(0)
    }

    fn node_json(&self, index: usize) -> serde_json::Value {
        let node = &self.nodes[index];
        let mut object = serde_json::Map::new();
        object.insert("handle".into(), json!(index + 1));
        object.insert("name".into(), json!(node.name));
        object.insert("type".into(), json!(node.kind.word()));
        if matches!(node.kind, NodeType::Parameter | NodeType::Attribute) {
            object.insert("value".into(), json!(node.value));
            object.insert(
                "accessmode".into(),
                json!(if node.takes == Takes::Nothing { "READ_ONLY" } else { "READ_WRITE" }),
            );
        }
        for child in &node.children {
            object.insert(self.nodes[*child].name.clone(), self.node_json(*child));
        }
        object.into()
    }

    /// The settings of the board with the changes of clients: channels that are switched off have no rate, channel 0
    /// determines whether there are waveforms, and statistics are sent if enabled.
    pub fn board_settings(&self, base: &Settings) -> Settings {
        let channel = |channel: u16, name: &str| self.value(&format!("/ch/{channel}/par/{name}"));
        let enabled = |number: u16| channel(number, "chenable") != Some("False");
        let mut settings = base.clone();
        if !(0..base.channels).all(enabled) {
            let rate = |number: u16| if enabled(number) { base.channel_rate_hz(number) } else { 0.0 };
            settings.rate_hz = Rates::List((0..base.channels).map(rate).collect());
            settings.total_rate_hz = None;
        }
        let samples = match base.firmware {
            Firmware::Scope => self.value("/par/recordlengths"),
            _ if channel(0, "wavetriggersource") == Some("Disabled") => Some("0"),
            _ => channel(0, "chrecordlengths"),
        };
        let samples = samples.and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0) as u32;
        settings.waveform_samples = samples;
        let before = match base.firmware {
            Firmware::Scope => self.value("/par/pretriggers"),
            _ => channel(0, "chpretriggers"),
        };
        let before =
            before.and_then(|text| text.parse::<f64>().ok()).map(|before| (before as u32).min(samples));
        if let Some(before) = before.filter(|before| *before != settings.samples_before_trigger()) {
            settings.samples_before_trigger = Some(before);
        }
        let wanted = self.value("/par/enstatevents") == Some("True");
        settings.statistics_interval_ms = match base.statistics_interval_ms {
            _ if !wanted => 0,
            0 => 1000,
            stated => stated,
        };
        settings
    }
}

/// Rounds `number` down to a multiple of `step`, with as many digits as the step has.
fn rounded(number: f64, step: f64) -> String {
    // A number that is a multiple, except for the last bits of a binary fraction, is not changed.
    let multiple = (number / step + 1e-9).floor() * step;
    format!("{}", (multiple * 1000.0).round() / 1000.0)
}

fn boolean(value: bool) -> String {
    if value { "True".into() } else { "False".into() }
}

/// The names of a path element: itself, or all numbers of a range.
fn names_of(element: &str) -> Option<Vec<String>> {
    let Some((first, last)) = element.split_once("..") else { return Some(vec![element.to_string()]) };
    let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
    if first > last || last - first >= RANGE_MAXIMUM {
        return None;
    }
    Some((first..=last).map(|number| number.to_string()).collect())
}
