//! The registers of an emulated device: memory, and addresses that behave.
//!
//! ```text
//!  address ─► a Behaviour there? ─► counter · FIFO · self-clearing · read-only · refusing
//!                     └ none ─► memory, page by page as it is written
//! ```

use std::collections::{BTreeMap, VecDeque};

use super::{Bus, BusFault, each};
use crate::table::{Mode, Table, TableError, number};

/// Words of a page of memory.
const PAGE_WORDS: usize = 1 << 12;

/// How some addresses behave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Each read gives one more than the one before; a write sets what the next read gives.
    Counter(u32),
    /// What is written is read once, in its order. An empty one refuses to be read, a full one to be written.
    Fifo {
        /// Words that wait.
        words: VecDeque<u32>,
        /// Most of them.
        depth: usize,
    },
    /// Takes what is written and is read as 0: a command bit.
    SelfClearing,
    /// Gives a word, and refuses to be written.
    ReadOnly(u32),
    /// Refuses everything.
    Refusing(BusFault),
}

/// How a table says in `parameters="emulate=…"` that a node behaves, in words.
const BEHAVIOURS: &str = "counter, fifo, self_clearing, read_only, error and timeout";
/// Words that an emulated FIFO holds, unless its node has a size.
const FIFO_WORDS: usize = 1 << 16;

/// Memory with addresses that behave. Every other address is there and holds 0 until it is written.
#[derive(Clone, Debug, Default)]
pub struct Registers {
    pages: BTreeMap<u32, Box<[u32]>>,
    /// By the first address: the last, and how they behave.
    behaving: BTreeMap<u32, (u32, Behaviour)>,
    configuration: Vec<u32>,
}

impl Registers {
    /// Memory alone.
    pub fn new() -> Registers {
        Registers::default()
    }

    /// Addresses `first` to `last` behave as one from here on, in place of what behaved there.
    pub fn behave(&mut self, first: u32, last: u32, behaviour: Behaviour) {
        let overlaps = |start: &u32, (end, _): &mut (u32, Behaviour)| *start > last || *end < first;
        self.behaving.retain(overlaps);
        self.behaving.insert(first, (last, behaviour));
    }

    /// Memory in which the nodes of a table behave as their `parameters` say (`emulate=counter`, and so on; `value=…` is what a counter
    /// begins with and a read-only word is).
    ///
    /// # Errors
    /// When one says what there is not.
    pub fn of_table(table: &Table) -> Result<Registers, TableError> {
        let mut registers = Registers::new();
        for node in table.nodes() {
            let Some(behaviour) = node.parameters.get("emulate") else { continue };
            let failed = |message| TableError { file: node.file.to_path_buf(), line: node.line, message };
            let value = match node.parameters.get("value") {
                None => 0,
                Some(text) => number(text).ok_or_else(|| failed(format!("`value={text}` is no number")))?,
            };
            let behaviour = match behaviour.as_str() {
                "counter" => Behaviour::Counter(value),
                "fifo" => {
                    let depth = match node.mode {
                        Mode::NonIncremental { size: Some(size) } => size as usize,
                        _ => FIFO_WORDS,
                    };
                    Behaviour::Fifo { words: VecDeque::new(), depth }
                }
                "self_clearing" => Behaviour::SelfClearing,
                "read_only" => Behaviour::ReadOnly(value),
                "error" => Behaviour::Refusing(BusFault::Error),
                "timeout" => Behaviour::Refusing(BusFault::Timeout),
                other => return Err(failed(format!("`emulate={other}`; there are {BEHAVIOURS}"))),
            };
            registers.behave(node.address, node.address.saturating_add(node.span().max(1) - 1), behaviour);
        }
        Ok(registers)
    }

    /// The device's own address space.
    pub fn set_configuration(&mut self, words: Vec<u32>) {
        self.configuration = words;
    }

    /// A word of memory, whatever behaves there.
    pub fn memory(&self, address: u32) -> u32 {
        let page = self.pages.get(&(address / PAGE_WORDS as u32));
        page.map_or(0, |page| page[address as usize % PAGE_WORDS])
    }

    /// Sets a word of memory, whatever behaves there.
    pub fn set_memory(&mut self, address: u32, word: u32) {
        let page =
            self.pages.entry(address / PAGE_WORDS as u32).or_insert_with(|| vec![0; PAGE_WORDS].into());
        page[address as usize % PAGE_WORDS] = word;
    }

    /// Whether words from an address on are memory, all of them.
    fn is_memory(&self, address: u32, words: usize) -> bool {
        let last = address.checked_add(words.saturating_sub(1) as u32);
        last.is_some_and(|last| {
            // No two that behave overlap: of those that begin up to there, the last ends last.
            self.behaving.range(..=last).next_back().is_none_or(|(_, (end, _))| *end < address)
        })
    }

    fn behaviour(&mut self, address: u32) -> Option<&mut Behaviour> {
        let (_, (last, behaviour)) = self.behaving.range_mut(..=address).next_back()?;
        (address <= *last).then_some(behaviour)
    }
}

impl Bus for Registers {
    fn read(&mut self, address: u32) -> Result<u32, BusFault> {
        match self.behaviour(address) {
            None => Ok(self.memory(address)),
            Some(Behaviour::Counter(count)) => {
                let word = *count;
                *count = word.wrapping_add(1);
                Ok(word)
            }
            Some(Behaviour::Fifo { words, .. }) => words.pop_front().ok_or(BusFault::Error),
            Some(Behaviour::SelfClearing) => Ok(0),
            Some(Behaviour::ReadOnly(word)) => Ok(*word),
            Some(Behaviour::Refusing(fault)) => Err(*fault),
        }
    }

    fn write(&mut self, address: u32, word: u32) -> Result<(), BusFault> {
        match self.behaviour(address) {
            None => self.set_memory(address, word),
            Some(Behaviour::Counter(count)) => *count = word,
            Some(Behaviour::Fifo { words, depth }) if words.len() < *depth => words.push_back(word),
            Some(Behaviour::SelfClearing) => {}
            Some(Behaviour::Fifo { .. } | Behaviour::ReadOnly(_)) => return Err(BusFault::Error),
            Some(Behaviour::Refusing(fault)) => return Err(*fault),
        }
        Ok(())
    }

    fn read_block(&mut self, address: u32, words: &mut [u32]) -> Result<(), (usize, BusFault)> {
        if !self.is_memory(address, words.len()) {
            return each(words, |index, word| {
                *word = self.read(address.wrapping_add(index))?;
                Ok(())
            });
        }
        let mut at = address as usize;
        let mut rest = words;
        while !rest.is_empty() {
            let start = at % PAGE_WORDS;
            let (part, behind) = rest.split_at_mut((PAGE_WORDS - start).min(rest.len()));
            match self.pages.get(&((at / PAGE_WORDS) as u32)) {
                Some(page) => part.copy_from_slice(&page[start..start + part.len()]),
                None => part.fill(0),
            }
            (at, rest) = (at + part.len(), behind);
        }
        Ok(())
    }

    fn write_block(&mut self, address: u32, words: &[u32]) -> Result<(), (usize, BusFault)> {
        let is_one_page = (address as usize % PAGE_WORDS) + words.len() <= PAGE_WORDS;
        if words.is_empty() || !is_one_page || !self.is_memory(address, words.len()) {
            return each(words, |index, word| self.write(address.wrapping_add(index), *word));
        }
        self.set_memory(address, words[0]);
        if let Some(page) = self.pages.get_mut(&(address / PAGE_WORDS as u32)) {
            let start = address as usize % PAGE_WORDS;
            page[start..start + words.len()].copy_from_slice(words);
        }
        Ok(())
    }

    fn read_configuration(&mut self, address: u32) -> Result<u32, BusFault> {
        self.configuration.get(address as usize).copied().ok_or(BusFault::Error)
    }

    fn write_configuration(&mut self, address: u32, word: u32) -> Result<(), BusFault> {
        let place = self.configuration.get_mut(address as usize).ok_or(BusFault::Error)?;
        *place = word;
        Ok(())
    }
}
