//! The topology of a run: which stage feeds which, as plain data.
//!
//! ```text
//!  configuration ─► Topology ─┬─► ledger: what must balance ([`balance`](Topology::discrepancies))
//!                             ├─► assembly: every thread, ring, pool and counters are claimed by name, once
//!                             └─► --explain, page, run.json, ledger.bin
//! ```
//! ```text
//!  Subject: source · board · link · events …        whose things are counted
//!  Node:    one stage of the path at one place      [ receive a ] ─Edge─► [ unpack a ] ─Edge─► [ decode a ] ─┐
//!  Edge:    what one hands to others                                                                          ├─► [ order ] ─► …
//!  Audit:   what two count by different means       wire a ⇄ unpack a                   sender a ⇄ decode a  ─┘
//! ```
//! Nodes stand in path order. Names are unique among their kind.

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

/// What a run consists of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Topology {
    /// Whose things are counted, by number: [`SourceId`] is the place in this list.
    pub subjects: Vec<Subject>,
    /// The stages, in path order.
    pub nodes: Vec<Node>,
    /// What they hand to each other.
    pub edges: Vec<Edge>,
    /// What is counted twice, by different means.
    pub audits: Vec<Audit>,
    /// What goes against the path and holds it back.
    pub controls: Vec<ControlEdge>,
    /// The threads of this process.
    pub threads: Vec<Thread>,
    /// What lies between them.
    pub rings: Vec<Ring>,
    /// Where received bytes lie.
    pub pools: Vec<BlockPool>,
    /// Where fragments become events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub builders: Vec<Builder>,
}

/// Whose things are counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Subject {
    /// As people know it.
    pub name: String,
    /// What it is.
    pub kind: SubjectKind,
    /// Of a board, the link that it shares with others; of a link, board or source, none where the `[[source]]` is itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u16>,
}

/// What a subject is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SubjectKind {
    /// A `[[source]]` of hits.
    Source,
    /// A connection or socket that several boards share.
    Link,
    /// A board that answers triggers.
    Board,
    /// What a source of hits has in each time slice.
    Slices,
    /// The events that are built.
    Events,
    /// The events that are made of hits.
    Coincidences,
    /// A readout unit, builder unit or event manager.
    Unit,
}

/// Which of the two paths through a run a node is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowPath {
    /// Self-triggered boards: hits, and the coincidences that are made of them.
    Hits,
    /// Triggered boards and time slices: fragments, and the events that are built of them.
    Events,
}

/// When the counts of a node are exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Marker {
    /// At each marker that passes, per subject.
    PerSubject,
    /// At the end of the run, when it is counted.
    End,
}

/// One stage of the path at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// Its name, such as `decode left`.
    pub id: String,
    /// What it does.
    pub stage: Stage,
    /// Which path it is on.
    #[serde(rename = "lane")]
    pub flow_path: FlowPath,
    /// The thread that works on it, in this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// What it counts.
    pub counts: Vec<Counts>,
    /// When its counts are exact.
    pub marker: Marker,
}

/// What a node counts, of a range of subjects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// The first subject.
    pub first: u16,
    /// How many.
    pub subjects: u16,
    /// What is counted of each.
    pub units: Vec<Unit>,
    /// Of these, what comes into being here: as `in` it is counted where it does, whatever becomes of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made: Vec<Unit>,
    /// Of these, what is counted only if the data come that way, which a board says when it is asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may: Vec<Unit>,
}

/// What one node hands to others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Edge {
    /// The node that hands on.
    pub from: String,
    /// The nodes that take.
    pub to: Vec<String>,
    /// In what units both sides count it.
    pub units: Vec<Unit>,
    /// Whether each takes all of it, or each a part.
    pub fan: Fan,
    /// How it gets there.
    pub via: Via,
    /// How the subjects of both sides belong together.
    #[serde(default)]
    pub subjects: Subjects,
}

/// What each of several takers gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fan {
    /// All of it.
    Copy,
    /// A part; the parts are all of it.
    Split,
}

/// How things get from one node to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// On the same thread.
    Call,
    /// Through a ring between their threads.
    Ring,
    /// To another process, or another unit of this one.
    Peer,
    /// Over a network that may lose it, to who sees by numbers what is missing: what the taker notes as unseen.
    Network,
}

/// How the subjects of an edge's two sides belong together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Subjects {
    /// Each has its own.
    #[default]
    Same,
    /// Those of the taker are children of those of the giver: their sum is the parent's.
    Children,
    /// The taker has others: all that it counts together is the giver's.
    Whole,
}

/// What two nodes count by different means and must agree on: as what sequence numbers say was seen, and what was framed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Audit {
    /// The node whose `out` is known by other means.
    pub auditor: String,
    /// The node whose `out` it must be.
    pub audited: String,
    /// In what units.
    pub units: Vec<Unit>,
}

/// Where fragments become events: of each event a fragment of each board, or an entry that it is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Builder {
    /// The node that counts events.
    pub events: String,
    /// The node that counts the fragments of each board.
    pub fragments: String,
    /// The nodes that count what of each board is missing.
    pub wires: Vec<String>,
    /// Its events are counted by their trigger numbers as well. Older builders did not note how many numbers there were.
    #[serde(default)]
    pub notes_numbers: bool,
}

/// What goes against the path: never part of the order in which a run drains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ControlEdge {
    /// Who holds back.
    pub from: String,
    /// Who is held back.
    pub to: String,
    /// How.
    pub kind: ControlKind,
}

/// How one part of a run holds another back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ControlKind {
    /// The trigger, while somebody is BUSY.
    Busy,
    /// Who gives, by what the taker can take.
    Credit,
    /// A builder, by the triggers that another source has.
    Follow,
    /// The trigger, while the event manager or, of a real one, the run says so.
    Gate,
}

impl ControlKind {
    /// The word in files and on screens.
    pub const fn word(self) -> &'static str {
        match self {
            ControlKind::Busy => "busy",
            ControlKind::Credit => "credit",
            ControlKind::Follow => "follow",
            ControlKind::Gate => "gate",
        }
    }
}

/// One thread of a run, or several that do the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Thread {
    /// The key in `[threads]`.
    pub name: String,
    /// How many there are.
    pub count: usize,
    /// What it does.
    pub does: String,
    /// What it reads or listens at, if anything.
    pub url: Option<String>,
    /// The cores it may run on; empty: any that the process may use.
    pub cores: Vec<usize>,
    /// Its real-time priority.
    pub priority: Option<u8>,
}

/// What lies between two threads: so many batches that go round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ring {
    /// The thread that fills batches.
    pub from: String,
    /// The thread that empties them.
    pub to: String,
    /// What is in them.
    pub carries: String,
    /// How many there are.
    pub batches: usize,
    /// What happens when all of them are under way.
    pub full: String,
}

/// Blocks for received bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockPool {
    /// The source or unit whose they are.
    pub owner: String,
    /// So many pools of equal shape: one per link.
    pub pools: usize,
    /// Blocks of each.
    pub blocks: usize,
    /// Bytes of each block.
    pub block_bytes: usize,
    /// The thread whose core is near it, unless a node is named.
    pub near: String,
    /// The NUMA node it will be on; none: wherever that thread is when it touches it first.
    pub numa_node: Option<u32>,
    /// The size of its pages.
    pub huge_pages: HugePages,
    /// Bytes of all of them.
    pub bytes: u64,
}

impl Node {
    /// What of: the name of a source or unit, or a word for all of them.
    pub fn of(&self) -> &str {
        self.id.split_once(' ').map_or(&self.id, |(_, of)| of)
    }
}

impl Thread {
    /// One of this name, on any core.
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
    /// Of one subject.
    pub fn of(subject: SourceId, units: &[Unit]) -> Counts {
        Counts::of_each(subject.0..subject.0 + 1, units)
    }

    /// Of each of some subjects.
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

    /// The same, where these units come into being.
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
    /// A topology of subjects with these names alone: nothing is declared, so nothing can be claimed wrongly.
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

    /// Names that stand twice among nodes or threads, and edges, audits and controls that name no node.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (place, node) in self.nodes.iter().enumerate() {
            if self.nodes[..place].iter().any(|other| other.id == node.id) {
                faults.push(format!("two nodes are called {}", node.id));
            }
        }
        for (place, thread) in self.threads.iter().enumerate() {
            if self.threads[..place].iter().any(|other| other.name == thread.name) {
                faults.push(format!("two threads are called {}", thread.name));
            }
        }
        let edges = self.edges.iter().flat_map(|edge| edge.to.iter().chain([&edge.from]));
        let audits = self.audits.iter().flat_map(|audit| [&audit.auditor, &audit.audited]);
        let built =
            self.builders.iter().flat_map(|each| each.wires.iter().chain([&each.events, &each.fragments]));
        let unknown = edges.chain(audits).chain(built).filter(|id| self.node(id).is_none());
        faults.extend(unknown.map(|id| format!("no node is called {id}")));
        let threads = self.nodes.iter().filter_map(|node| node.thread.as_ref());
        let unknown = threads.filter(|name| !self.threads.iter().any(|thread| thread.name == **name));
        faults.extend(unknown.map(|name| format!("no thread is called {name}")));
        faults
    }
}
