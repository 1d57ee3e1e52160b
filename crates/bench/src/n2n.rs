//! `n2n`: every process sends to every other, for several numbers of processes and sizes of messages.

use std::io::{self, BufReader};
use std::process::{Command, Stdio};

use crate::transport::{Node, n2n as n2n_of, n2n_node};

use super::sweep::Sweep;
use super::{BenchError, Conditions, Measured};

/// The word that makes `thalweg` a node of this bench; not for people.
pub const NODE: &str = "n2n-node";

/// Message sizes, bytes.
const SIZES: [usize; 5] = [64, 1 << 10, 16 << 10, 128 << 10, 1 << 20];
/// Processes.
const NODES: [usize; 3] = [2, 4, 8];

/// Measures all sizes and numbers of processes.
pub(super) fn n2n(conditions: &Conditions) -> Result<Measured, BenchError> {
    let mut points = Vec::new();
    for nodes in NODES {
        for bytes in SIZES {
            let measured = n2n_of(nodes, bytes, conditions.repeats, process)
                .map_err(|error| BenchError::Room { bench: "n2n", message: error.to_string() })?;
            points.push(measured);
        }
    }
    let sweep = Sweep {
        bench: "n2n",
        title: "Every process sends to every other, loopback TCP".to_owned(),
        along: "message_bytes",
        x_title: "message / B",
        lines: Some("nodes"),
        points,
        shows_ratio: true,
        logarithmic_x: true,
        logarithmic_y: false,
        guides: Vec::new(),
    };
    Ok(sweep.measured())
}

/// Runs this process as a node of the bench that `kind` names, `n2n` without one, until its standard input ends.
///
/// # Errors
/// When the other nodes are gone.
pub fn node(kind: Option<&str>) -> io::Result<()> {
    if kind == Some(super::evb::KIND) {
        return super::evb::node();
    }
    n2n_node(io::stdin().lock(), io::stdout().lock())
}

/// This program again, as a node.
fn process(_number: usize) -> io::Result<Node> {
    let program = std::env::current_exe()?;
    let mut child = Command::new(program).arg(NODE).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("a node has no standard input or output"));
    };
    // It ends when its input is closed; whoever starts it does not wait for it.
    std::thread::spawn(move || child.wait());
    Ok(Node { input: Box::new(input), output: Box::new(BufReader::new(output)) })
}
