//! Registers by name or address: read, written, changed in one step, in blocks to and from files; all of a table.
//!
//! ```text
//!  REGISTER ─ an address ─► Client
//!           └ a name ─────► Board: what the table allows
//! ```

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use anyhow::{Context, anyhow};
use serde::Serialize;
use thalweg_ipbus::board::Board;
use thalweg_ipbus::table::{Mode, Node, number};

use super::{open, usage};
use crate::arguments::{IpbusBlock, IpbusChange, IpbusTarget};
use crate::commands::Ended;
use crate::report::{CommandOutcome, Failure, print};

/// A register and what it holds.
#[derive(Serialize)]
struct Register {
    register: String,
    words: Vec<u32>,
}

fn words_of(board: &mut Board, register: &str, words: Option<usize>) -> Result<Vec<u32>, Failure> {
    if let Some(address) = number(register) {
        let mut block = vec![0; words.unwrap_or(1)];
        let mut queue = board.client_mut().queue();
        queue.read_block(address, &mut block);
        queue.dispatch()?;
        return Ok(block);
    }
    let is_block = |node: &Node| !matches!(node.mode, Mode::Single | Mode::Hierarchical);
    match (words, board.table().node(register).is_some_and(is_block)) {
        (None, false) => Ok(vec![board.read(register)?]),
        (words, _) => {
            let mut block = vec![0; words.unwrap_or(1)];
            board.read_block(register, 0, &mut block)?;
            Ok(block)
        }
    }
}

/// Reads registers.
pub(super) fn read(target: &IpbusTarget, registers: &[String], words: Option<usize>, json: bool) -> Ended {
    let mut board = open(target)?;
    let mut all = Vec::new();
    for register in registers {
        all.push(Register { register: register.clone(), words: words_of(&mut board, register, words)? });
    }
    let line = |one: &Register| {
        let words: Vec<String> = one.words.iter().map(|word| format!("{word:#010x}")).collect();
        format!("{} = {}\n", one.register, words.join(" "))
    };
    print(&all, json, |all| all.iter().map(line).collect())?;
    Ok(CommandOutcome::Done)
}

/// Writes registers, one after the other.
pub(super) fn write(target: &IpbusTarget, assignments: &[String], json: bool) -> Ended {
    let mut all = Vec::new();
    for assignment in assignments {
        let wrong =
            || usage(anyhow!("`{assignment}`: write REGISTER=VALUE, as in CONTROL.ENABLE=1 or 0x10=0xFF"));
        let (register, value) = assignment.split_once('=').ok_or_else(wrong)?;
        all.push((register, number(value).ok_or_else(wrong)?));
    }
    let mut board = open(target)?;
    for (register, value) in &all {
        board.write(register, *value)?;
    }
    print(&all.len(), json, |count| format!("{count} register(s) written"))?;
    Ok(CommandOutcome::Done)
}

/// Changes a register in one step of its target.
pub(super) fn change(options: &IpbusChange, json: bool) -> Ended {
    let mut board = open(&options.target)?;
    let register = options.register.as_str();
    let (keep, set) = (!options.clear.unwrap_or(0), options.set.unwrap_or(0));
    let before = match options.add {
        Some(addend) => board.add(register, addend)?,
        None => board.change_bits(register, keep, set)?,
    };
    let value = serde_json::json!({ "register": register, "before": before });
    print(&value, json, |_| format!("{register} was {before:#010x}"))?;
    Ok(CommandOutcome::Done)
}

/// Bytes of a word in a file.
const WORD_BYTES: usize = 4;

fn words_of_file(file: &Path) -> Result<Vec<u32>, Failure> {
    let place = || file.display().to_string();
    let mut bytes = Vec::new();
    BufReader::new(File::open(file).with_context(place)?).read_to_end(&mut bytes).with_context(place)?;
    let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
    match (words.len(), rest.len()) {
        (0, 0) => Err(usage(anyhow!("{}: it is empty", place()))),
        (_, 0) => Ok(words.iter().map(|word| u32::from_le_bytes(*word)).collect()),
        (_, more) => {
            Err(usage(anyhow!("{}: {} bytes are no whole words, {more} are left", place(), bytes.len())))
        }
    }
}

fn save(words: &[u32], file: &Path) -> std::io::Result<()> {
    let mut out = BufWriter::new(File::create(file)?);
    words.iter().try_for_each(|word| out.write_all(&word.to_le_bytes()))?;
    out.flush()
}

/// Moves a block between a board and a file of little-endian words.
pub(super) fn block(options: &IpbusBlock, json: bool) -> Ended {
    let mut board = open(&options.target)?;
    let register = options.register.as_str();
    let (words, done) = match (&options.from, &options.to) {
        (Some(file), _) => {
            let words = words_of_file(file)?;
            write_words(&mut board, register, &words)?;
            (words.len(), format!("written from {}", file.display()))
        }
        (None, Some(file)) => {
            let count = options.words.or_else(|| size_of(&board, register));
            let count = count.ok_or_else(|| usage(anyhow!("`{register}` has no size; say --words")))?;
            let words = words_of(&mut board, register, Some(count))?;
            save(&words, file).with_context(|| file.display().to_string())?;
            (words.len(), format!("read into {}", file.display()))
        }
        (None, None) => return Err(usage(anyhow!("a block is read --to FILE or written --from FILE"))),
    };
    let value = serde_json::json!({ "register": register, "words": words });
    print(&value, json, |_| format!("{register}: {words} words {done}"))?;
    Ok(CommandOutcome::Done)
}

fn write_words(board: &mut Board, register: &str, words: &[u32]) -> Result<(), Failure> {
    match number(register) {
        None => board.write_block(register, 0, words)?,
        Some(address) => {
            let mut queue = board.client_mut().queue();
            queue.write_block(address, words);
            queue.dispatch()?;
        }
    }
    Ok(())
}

fn size_of(board: &Board, register: &str) -> Option<usize> {
    match board.table().node(register)?.mode {
        Mode::Incremental { size } => Some(size as usize),
        Mode::NonIncremental { size } => size.map(|size| size as usize),
        Mode::Single => Some(1),
        Mode::Hierarchical => None,
    }
}

/// A register of a dump: what it holds, or why that did not come.
#[derive(Serialize)]
struct Dumped {
    register: String,
    address: u32,
    value: Option<u32>,
    error: Option<String>,
}

/// Reads every word of a table that can be read. Blocks are left out, and ports: to read one changes it.
pub(super) fn dump(target: &IpbusTarget, patterns: &[String], json: bool) -> Ended {
    let mut board = open(target)?;
    let mut nodes: Vec<Node> = Vec::new();
    for pattern in patterns {
        let found = board.table().matching(pattern).map_err(|why| usage(anyhow!(why)))?;
        nodes.extend(found.into_iter().filter(|node| is_dumped(node)).cloned());
    }
    if nodes.is_empty() {
        let all = board.table().nodes().len();
        return Err(usage(anyhow!(
            "no register to be read of the table's {all} nodes fits {}; a table comes with --table or --connections",
            patterns.join(" ")
        )));
    }
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    let values = board.read_all(&names);
    let dumped = |(node, value): (&Node, Result<u32, _>)| Dumped {
        register: node.name.clone(),
        address: node.address,
        value: value.as_ref().ok().copied(),
        error: value.err().map(|error: thalweg_ipbus::board::BoardError| error.to_string()),
    };
    let all: Vec<Dumped> = nodes.iter().zip(values).map(dumped).collect();
    let is_whole = all.iter().all(|one| one.error.is_none());
    let width = names.iter().map(|name| name.len()).max().unwrap_or_default();
    print(&all, json, |all| {
        let line = |one: &Dumped| {
            let held = match (one.value, &one.error) {
                (Some(value), _) => format!("{value:#010x}  {value}"),
                (None, error) => error.clone().unwrap_or_default(),
            };
            format!("{:width$}  {:#010x}  {held}\n", one.register, one.address)
        };
        all.iter().map(line).collect()
    })?;
    Ok(if is_whole { CommandOutcome::Done } else { CommandOutcome::Failed })
}

fn is_dumped(node: &Node) -> bool {
    node.mode == Mode::Single && node.permission.reads()
}
