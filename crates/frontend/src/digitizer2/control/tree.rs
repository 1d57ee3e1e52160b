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

use super::initial_values::InitialValues;
use crate::digitizer2::emulate::Settings;
use crate::digitizer2::emulate::settings::{Firmware, Rates, Transport};
use crate::digitizer2::parameters::{COMMANDS, Place, Refusal, Rule, Words, entries, plain};

/// Most nodes in one range: otherwise, two ranges in one path could have millions.
const RANGE_MAXIMUM: usize = 4096;
/// Groups of four pairs on the LVDS connector.
const LVDS_GROUPS: u16 = 4;

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
    /// Channels with one input delay.
    Group,
    /// Channels with one amplifier.
    Vga,
    /// Pairs of the LVDS connector.
    Lvds,
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
            NodeType::Group => "GROUP",
            NodeType::Vga => "VGA",
            NodeType::Lvds => "LVDS",
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

#[derive(Clone, Debug)]
struct Node {
    parent: usize,
    name: String,
    kind: NodeType,
    value: String,
    default: String,
    rule: Rule,
    unit: &'static str,
    /// The node that has the same value in samples, and the nanoseconds of one.
    in_samples: Option<(usize, f64)>,
    children: Vec<usize>,
}

/// The tree. Handles are indices plus one; 0 is also the root: vendor clients use it before they know a handle.
#[derive(Clone, Debug)]
pub struct Tree {
    nodes: Vec<Node>,
    index: HashMap<(usize, String), usize>,
}

impl Tree {
    /// Creates the tree of the board with these settings, whose TCP data port is `data_port`.
    pub fn new(settings: &Settings, data_port: u16) -> Tree {
        let mut tree = Tree { nodes: Vec::new(), index: HashMap::new() };
        let root = tree.add(0, "", NodeType::Digitizer, "");
        let initial = InitialValues::of(settings);
        tree.add_parameters(root, Place::Board, &initial, None);
        let commands = tree.add(root, "cmd", NodeType::Folder, "");
        for name in COMMANDS {
            tree.add(commands, name, NodeType::Command, "");
        }
        let channels = settings.channels;
        for (folder, kind, count, place) in [
            ("ch", NodeType::Channel, channels, Place::Channel),
            ("group", NodeType::Group, channels.div_ceil(4), Place::Group),
            ("vga", NodeType::Vga, channels.div_ceil(16), Place::Vga),
            ("lvds", NodeType::Lvds, LVDS_GROUPS, Place::Lvds),
        ] {
            if entries(place, &initial.kind).is_empty() {
                continue;
            }
            let folder = tree.add(root, folder, NodeType::Folder, "");
            for number in 0..count {
                let node = tree.add(folder, &number.to_string(), kind, "");
                tree.add_parameters(node, place, &initial, Some(number));
            }
        }
        tree.add_endpoints(root, settings, data_port);
        tree
    }

    fn add(&mut self, parent: usize, name: &str, kind: NodeType, value: &str) -> usize {
        self.add_ruled((parent, name, kind), value, Rule::ReadOnly)
    }

    fn add_ruled(&mut self, (parent, name, kind): (usize, &str, NodeType), value: &str, rule: Rule) -> usize {
        let index = self.nodes.len();
        let (name, value) = (name.to_lowercase(), value.to_owned());
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
            rule,
            unit: "",
            in_samples: None,
            children: Vec::new(),
        });
        index
    }

    /// Adds the parameters that the table has for such a board at a place.
    fn add_parameters(
        &mut self,
        node: usize,
        place: Place,
        initial: &InitialValues<'_>,
        number: Option<u16>,
    ) {
        let folder = self.add(node, "par", NodeType::Folder, "");
        for entry in entries(place, &initial.kind) {
            let name = entry.name.to_lowercase();
            let samples = entry.in_samples.map(|samples| self.index[&(folder, samples.to_lowercase())]);
            let rule = match samples.map(|samples| &self.nodes[samples].rule) {
                Some(Rule::Number(range)) => {
                    Rule::Number(range.map(|range| range.times(initial.period_ns())))
                }
                _ => initial.emulated_rule(&name, entry.rule),
            };
            let value = initial.value(&name, &rule, number);
            let added = self.add_ruled((folder, &name, NodeType::Parameter), &value, rule);
            self.nodes[added].unit = entry.unit;
            self.nodes[added].in_samples = samples.map(|samples| (samples, initial.period_ns()));
        }
    }

    fn add_endpoints(&mut self, root: usize, settings: &Settings, data_port: u16) {
        let folder = self.add(root, "endpoint", NodeType::Folder, "");
        let parameters = self.add(folder, "par", NodeType::Folder, "");
        let hardware = match settings.transport {
            Transport::Udp => "rawudp",
            Transport::Tcp => "raw",
        };
        let (software, names): (_, &'static [&'static str]) = match settings.firmware {
            Firmware::Psd => ("dpppsd", &["raw", "rawudp", "dpppsd"]),
            Firmware::Pha => ("dpppha", &["raw", "rawudp", "dpppha"]),
            Firmware::Scope => ("scope", &["raw", "rawudp", "scope"]),
            Firmware::Opendpp => ("opendpp", &["raw", "rawudp", "opendpp"]),
            Firmware::Zle => ("dppzle", &["raw", "rawudp", "dppzle"]),
        };
        let active = (parameters, "activeendpoint", NodeType::Parameter);
        self.add_ruled(active, hardware, Rule::OneOf(Words::Known(names)));
        let raw = self.add(folder, hardware, NodeType::Endpoint, "");
        let port = if settings.transport == Transport::Tcp { data_port } else { super::UDP_DATA_PORT };
        self.add(raw, "port", NodeType::Attribute, &port.to_string());
        let software = self.add(folder, software, NodeType::Endpoint, "");
        self.add(software, "stats", NodeType::Endpoint, "");
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
            NodeType::Parameter | NodeType::Attribute => Ok(self.value_of(node)),
            kind => Err(TreeError::NoValue { path: self.path_of(node), kind: kind.word() }),
        };
        self.nodes_at(handle, path)?.into_iter().map(value).collect()
    }

    /// The value of one node, by its path from the root.
    pub fn value(&self, path: &str) -> Option<String> {
        let node = self.nodes_at(self.root(), path).ok()?;
        node.first().map(|node| self.value_of(*node))
    }

    fn value_of(&self, node: usize) -> String {
        let Some((samples, period_ns)) = self.nodes[node].in_samples else {
            return self.nodes[node].value.clone();
        };
        plain(self.nodes[samples].value.parse::<f64>().unwrap_or(0.0) * period_ns)
    }

    /// Sets the value of each node at a path; either all or none.
    ///
    /// # Errors
    /// When there is no such node, it cannot be set, or it does not accept the value.
    pub fn set(&mut self, handle: u64, path: &str, value: &str) -> Result<(), TreeError> {
        let nodes = self.nodes_at(handle, path)?;
        let values: Vec<(usize, String)> =
            nodes.iter().map(|node| self.accepted(*node, value)).collect::<Result<_, _>>()?;
        for (node, value) in values {
            self.nodes[node].value = value;
        }
        Ok(())
    }

    /// The node that keeps a value, and the form in which it does: times are kept in samples.
    fn accepted(&self, node: usize, value: &str) -> Result<(usize, String), TreeError> {
        let named = |refusal| match refusal {
            Refusal::ReadOnly => TreeError::ReadOnly(self.path_of(node)),
            Refusal::Allowed(allowed) => {
                TreeError::Value { path: self.path_of(node), value: value.to_owned(), allowed }
            }
        };
        let kept = self.nodes[node].rule.kept(value).map_err(named)?;
        let Some((samples, period_ns)) = self.nodes[node].in_samples else { return Ok((node, kept)) };
        let count = value.trim().parse::<f64>().unwrap_or(0.0) / period_ns;
        let kept = self.nodes[samples].rule.kept(&count.to_string()).map_err(named)?;
        Ok((samples, kept))
    }

    /// Reports a value that clients can read only.
    pub(super) fn report(&mut self, path: &str, value: String) {
        if let Ok([node]) = self.nodes_at(self.root(), path).as_deref() {
            self.nodes[*node].value = value;
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
            object.insert("value".into(), json!(self.value_of(index)));
        }
        if node.kind == NodeType::Parameter {
            object.extend(attributes(node));
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
        let enabled = |number: u16| channel(number, "chenable").as_deref() != Some("False");
        let mut settings = base.clone();
        if !(0..base.channels).all(enabled) {
            let rate = |number: u16| if enabled(number) { base.channel_rate_hz(number) } else { 0.0 };
            settings.rate_hz = Rates::List((0..base.channels).map(rate).collect());
            settings.total_rate_hz = None;
        }
        let (length, before) = match base.firmware {
            firmware if firmware.has_windows() => {
                (self.value("/par/recordlengths"), self.value("/par/pretriggers"))
            }
            _ if channel(0, "wavetriggersource").as_deref() == Some("Disabled") => {
                (Some("0".to_owned()), channel(0, "chpretriggers"))
            }
            _ => (channel(0, "chrecordlengths"), channel(0, "chpretriggers")),
        };
        let number = |text: Option<String>| text?.parse::<f64>().ok().map(|number| number as u32);
        let samples = number(length).unwrap_or(base.waveform_samples);
        settings.waveform_samples = samples;
        let before = number(before).map(|before| before.min(samples));
        if let Some(before) = before.filter(|before| *before != settings.samples_before_trigger()) {
            settings.samples_before_trigger = Some(before);
        }
        let wanted = self.value("/par/enstatevents").as_deref() == Some("True");
        settings.statistics_interval_ms = match base.statistics_interval_ms {
            _ if !wanted => 0,
            0 => 1000,
            stated => stated,
        };
        settings
    }
}

/// The attributes of a parameter, as boards list them: nodes with a value of their own.
fn attributes(node: &Node) -> serde_json::Map<String, serde_json::Value> {
    let attribute = |value: String| json!({ "type": NodeType::Attribute.word(), "value": value });
    let mut all = vec![(
        "accessmode",
        attribute(if node.rule == Rule::ReadOnly { "READ_ONLY" } else { "READ_WRITE" }.to_owned()),
    )];
    let words = match &node.rule {
        Rule::OneOf(words) | Rule::AnyOf(words) => words.all().map(str::to_owned).collect(),
        Rule::Boolean => vec!["True".to_owned(), "False".to_owned()],
        _ => Vec::new(),
    };
    if !words.is_empty() {
        let listed = words.into_iter().enumerate();
        let listed: serde_json::Map<_, _> =
            listed.map(|(number, word)| (number.to_string(), attribute(word))).collect();
        all.push(("allowedvalues", listed.into()));
    }
    if let Rule::Number(range) = &node.rule {
        all.push(("datatype", attribute("NUMBER".to_owned())));
        all.extend(range.iter().flat_map(|range| {
            let step = range.step.map(|step| ("increment", attribute(plain(step))));
            let limits = [("minvalue", range.low), ("maxvalue", range.high)];
            limits.map(|(name, limit)| (name, attribute(plain(limit)))).into_iter().chain(step)
        }));
    }
    if !node.unit.is_empty() {
        all.push(("uom", attribute(node.unit.to_owned())));
    }
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
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
