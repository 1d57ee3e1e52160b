//! The topology of a run: which stage feeds which, as plain data.
//!
//! ```text
//!  configuration ─► Topology ─┬─► ledger: what must balance ([`balance`](Topology::discrepancies))
//!                             ├─► assembly: every thread, ring, pool and counter slot is claimed by name, once
//!                             └─► --explain, page, run.json, ledger.bin
//! ```
//! ```text
//!  Subject: source · board · link · events …        has counters of its own
//!  Node:    one stage, for some subjects            [ receive a ] ─Edge─► [ unpack a ] ─Edge─► [ decode a ] ─┐
//!  Edge:    what a node passes to others                                                                      ├─► [ order ] ─► …
//!  Audit:   what two count by different means       wire a ⇄ unpack a                   sender a ⇄ decode a  ─┘
//! ```
//! Nodes are in path order. Names are unique among their kind.

mod balance;
mod legacy;
mod path;
mod reach;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::SourceId;
use crate::ledger::{Stage, Unit};
use crate::memory::HugePages;

pub use path::Stop;

/// The parts of a run, and how they are connected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Topology {
    /// Everything that has counters of its own; a [`SourceId`] is an index into this list.
    pub subjects: Vec<Subject>,
    /// The stages, in path order.
    pub nodes: Vec<Node>,
    /// What the nodes pass to each other.
    pub edges: Vec<Edge>,
    /// What is counted twice, by different means.
    pub audits: Vec<Audit>,
    /// Back-pressure and other control against the direction of the path.
    pub controls: Vec<ControlEdge>,
    /// The threads of this process.
    pub threads: Vec<Thread>,
    /// The rings between the threads.
    pub rings: Vec<Ring>,
    /// The pools of blocks for received bytes.
    pub pools: Vec<BlockPool>,
    /// The builders, which make events of fragments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub builders: Vec<Builder>,
    /// What several nodes pass on together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sums: Vec<Sum>,
}

/// Something that has counters of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Subject {
    /// Its name, as people know it.
    pub name: String,
    /// What it is.
    pub kind: SubjectKind,
    /// For a board, the index of the link that it shares with others; none for a subject that is a `[[source]]` of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u16>,
}

/// The kind of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SubjectKind {
    /// A `[[source]]` of hits.
    Source,
    /// A connection or socket that several boards share.
    Link,
    /// A board that answers triggers.
    Board,
    /// The time slices of a source of hits.
    Slices,
    /// Built events.
    Events,
    /// Events of hits.
    Coincidences,
    /// A readout unit, builder unit or event manager.
    Unit,
}

/// Which of the two paths through a run a node is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowPath {
    /// For self-triggered boards: hits, and the coincidences that are made of them.
    Hits,
    /// For triggered boards and time slices: fragments, and the events that are built of them.
    Events,
}

/// When the counts of a node are exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Marker {
    /// At each marker that passes, for each subject.
    PerSubject,
    /// At the end of the run, when they are counted.
    End,
}

/// One stage, for some subjects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// Its name, such as `decode left`.
    pub id: String,
    /// Its stage.
    pub stage: Stage,
    /// The path that it is on.
    #[serde(rename = "lane")]
    pub flow_path: FlowPath,
    /// The thread of this process that runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// What it counts.
    pub counts: Vec<Counts>,
    /// When its counts are exact.
    pub marker: Marker,
}

/// What a node counts for a range of subjects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// The first subject.
    pub first: u16,
    /// The number of subjects.
    pub subjects: u16,
    /// The units that are counted for each subject.
    pub units: Vec<Unit>,
    /// Those of the units that the node makes. It counts them as `in` where it makes them, before anything else happens to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made: Vec<Unit>,
    /// Those of the units that are counted only if the data arrive in that way, which is known after the board is connected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may: Vec<Unit>,
}

/// What one node passes to others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Edge {
    /// The node that passes on.
    pub from: String,
    /// The nodes that take.
    pub to: Vec<String>,
    /// The units in which both sides count.
    pub units: Vec<Unit>,
    /// Whether each taker takes everything or a part.
    pub fan: Fan,
    /// How the data get there.
    pub via: Via,
    /// How the subjects of both sides correspond.
    #[serde(default)]
    pub subjects: Subjects,
}

/// What each of several takers gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fan {
    /// Everything.
    Copy,
    /// A part; all parts together are everything.
    Split,
}

/// How data get from one node to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// On the same thread.
    Call,
    /// Through a ring between their threads.
    Ring,
    /// To another process, or another unit of this one. On the way there, what is lost or built again is not counted by subject.
    Peer,
    /// Over a network that may lose data. The taker finds by numbers what is missing, and notes it as unseen.
    Network,
}

/// How the subjects of an edge's two sides correspond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Subjects {
    /// Both sides have the same subjects.
    #[default]
    Same,
    /// The taker's subjects are children of the giver's: the sum of the children is the parent's number.
    Children,
    /// The taker has other subjects: the sum of all is the giver's number.
    Whole,
}

/// What two nodes count by different means and must agree on, such as what was received by sequence numbers and what was framed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Audit {
    /// The node that counts by other means.
    pub auditor: String,
    /// The node whose `out` must be the `out` of the auditor.
    pub audited: String,
    /// The units that must agree.
    pub units: Vec<Unit>,
}

/// What some nodes pass on together to others, where those count for other subjects: the sum of all `out` is that of all `in`, or, where it is
/// out when the others have acknowledged it, no more than they have put out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sum {
    /// The nodes that pass on.
    pub from: Vec<String>,
    /// The nodes that take.
    pub to: Vec<String>,
    /// The units in which both sides count.
    pub units: Vec<Unit>,
    /// Whether the givers count as `out` what the takers have acknowledged.
    #[serde(default)]
    pub is_acknowledged: bool,
}

/// A builder, which makes events of fragments: for each event, each board has a fragment or is counted as missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Builder {
    /// The node that counts events.
    pub events: String,
    /// The node that counts the fragments of each board.
    pub fragments: String,
    /// The nodes that count the missing fragments of each board.
    pub wires: Vec<String>,
    /// Whether the builder also notes how many trigger numbers there were. Older builders did not.
    #[serde(default)]
    pub notes_numbers: bool,
}

/// Control against the direction of the path. It does not affect the order in which a run drains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ControlEdge {
    /// The part that controls.
    pub from: String,
    /// The part that is controlled.
    pub to: String,
    /// How it is controlled.
    pub kind: ControlKind,
}

/// How one part of a run makes another wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ControlKind {
    /// The trigger waits while a stage is BUSY.
    Busy,
    /// The giver waits for credits of the taker.
    Credit,
    /// A builder waits for the triggers of another source.
    Follow,
    /// The trigger waits while the event manager or, for a real trigger, the run requests it.
    Gate,
}

impl ControlKind {
    /// The name in files and on screens.
    pub const fn word(self) -> &'static str {
        match self {
            ControlKind::Busy => "busy",
            ControlKind::Credit => "credit",
            ControlKind::Follow => "follow",
            ControlKind::Gate => "gate",
        }
    }
}

/// One thread of a run, or several identical ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Thread {
    /// The key in `[threads]`.
    pub name: String,
    /// How many there are.
    pub count: usize,
    /// What it does.
    pub does: String,
    /// The URL that it reads or on which it listens, if any.
    pub url: Option<String>,
    /// The cores it may run on; empty: any that the process may use.
    pub cores: Vec<usize>,
    /// Its real-time priority.
    pub priority: Option<u8>,
}

/// A ring between two threads, in which a fixed number of batches circulate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ring {
    /// The thread that fills batches.
    pub from: String,
    /// The thread that empties them.
    pub to: String,
    /// What the batches contain.
    pub carries: String,
    /// The number of batches.
    pub batches: usize,
    /// What happens when all batches are in use.
    pub full: String,
}

/// Blocks for received bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockPool {
    /// The source or unit that owns them.
    pub owner: String,
    /// The number of identical pools: one per link.
    pub pools: usize,
    /// The number of blocks of each pool.
    pub blocks: usize,
    /// The size of each block, bytes.
    pub block_bytes: usize,
    /// The thread whose NUMA node the memory is on, unless `numa_node` is given.
    pub near: String,
    /// The NUMA node; if none, the node on which that thread first touches the memory.
    pub numa_node: Option<u32>,
    /// The kind of memory pages.
    pub huge_pages: HugePages,
    /// The size of all pools together, bytes.
    pub bytes: u64,
}

impl Node {
    /// The second part of its name: a source, a unit, or a word for all of them.
    pub fn of(&self) -> &str {
        self.id.split_once(' ').map_or(&self.id, |(_, of)| of)
    }
}

impl Thread {
    /// One thread with this name, on any core.
    pub fn new(name: impl Into<String>, does: impl Into<String>) -> Thread {
        Thread {
            name: name.into(),
            count: 1,
            does: does.into(),
            url: None,
            cores: Vec::new(),
            priority: None,
        }
    }
}

impl Counts {
    /// Counts of these units for one subject.
    pub fn of(subject: SourceId, units: &[Unit]) -> Counts {
        Counts::of_each(subject.0..subject.0 + 1, units)
    }

    /// Counts of these units for each subject of a range.
    pub fn of_each(subjects: std::ops::Range<u16>, units: &[Unit]) -> Counts {
        let count = subjects.end.saturating_sub(subjects.start);
        Counts {
            first: subjects.start,
            subjects: count,
            units: units.to_vec(),
            made: Vec::new(),
            may: Vec::new(),
        }
    }

    /// The same counts at a node that makes these units.
    pub fn making(self, made: &[Unit]) -> Counts {
        Counts { made: made.to_vec(), ..self }
    }

    /// The subjects.
    pub fn each(&self) -> impl Iterator<Item = SourceId> + use<> {
        (self.first..self.first.saturating_add(self.subjects)).map(SourceId)
    }

    fn has(&self, subject: SourceId) -> bool {
        (self.first..self.first.saturating_add(self.subjects)).contains(&subject.0)
    }
}

impl Topology {
    /// A topology of subjects with these names and no nodes.
    pub fn of_names(names: &[String]) -> Topology {
        let subject = |name: &String| Subject { name: name.clone(), kind: SubjectKind::Source, parent: None };
        Topology { subjects: names.iter().map(subject).collect(), ..Topology::default() }
    }

    /// The names of the subjects.
    pub fn names(&self) -> Vec<String> {
        self.subjects.iter().map(|subject| subject.name.clone()).collect()
    }

    /// The node with this name.
    pub fn node(&self, id: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// The node that counts at a stage for a subject, with what it counts.
    pub fn counting(&self, stage: Stage, subject: SourceId) -> Option<(&Node, &Counts)> {
        let nodes = self.nodes.iter().filter(|node| node.stage == stage);
        nodes
            .flat_map(|node| node.counts.iter().map(move |counts| (node, counts)))
            .find(|(_, counts)| counts.has(subject))
    }

    /// The stage of a node, and what it counts of a subject.
    pub fn counting_at(&self, id: &str, subject: SourceId) -> Option<(Stage, &Counts)> {
        let node = self.node(id)?;
        node.counts.iter().find(|counts| counts.has(subject)).map(|counts| (node.stage, counts))
    }

    /// Duplicate names of nodes or threads; edges, audits, builders and sums that name unknown nodes; and nodes that name unknown threads.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            if self.nodes[..index].iter().any(|other| other.id == node.id) {
                faults.push(format!("two nodes are called {}", node.id));
            }
        }
        for (index, thread) in self.threads.iter().enumerate() {
            if self.threads[..index].iter().any(|other| other.name == thread.name) {
                faults.push(format!("two threads are called {}", thread.name));
            }
        }
        let edges = self.edges.iter().flat_map(|edge| edge.to.iter().chain([&edge.from]));
        let audits = self.audits.iter().flat_map(|audit| [&audit.auditor, &audit.audited]);
        let built =
            self.builders.iter().flat_map(|each| each.wires.iter().chain([&each.events, &each.fragments]));
        let summed = self.sums.iter().flat_map(|sum| sum.from.iter().chain(&sum.to));
        let unknown = edges.chain(audits).chain(built).chain(summed).filter(|id| self.node(id).is_none());
        faults.extend(unknown.map(|id| format!("no node is called {id}")));
        let threads = self.nodes.iter().filter_map(|node| node.thread.as_ref());
        let unknown = threads.filter(|name| !self.threads.iter().any(|thread| thread.name == **name));
        faults.extend(unknown.map(|name| format!("no thread is called {name}")));
        faults
    }
}
