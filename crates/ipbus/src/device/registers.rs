//! The registers of an emulated device: memory, and addresses with special behaviour.
//!
//! ```text
//!  address ─► Behaviour? ─► counter · FIFO · self-clearing · read-only · refusing
//!                 └ none ─► memory, allocated in pages when written
//! ```

use std::collections::{BTreeMap, VecDeque};

use super::{Bus, BusFault, each};
use crate::table::{Mode, Table, TableError, number};

/// Words of a page of memory.
const PAGE_WORDS: usize = 1 << 12;

/// The behaviour of a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Each read gives the count and increments it; a write sets it.
    Counter(u32),
    /// Each written word is read once, in order. Reading an empty FIFO or writing a full one is a bus error.
    Fifo {
        /// The words in the FIFO.
        words: VecDeque<u32>,
        /// Most words in the FIFO.
        depth: usize,
    },
    /// Accepts writes and reads as 0: a command bit.
    SelfClearing,
    /// Reads as this word; a write is a bus error.
    ReadOnly(u32),
    /// Every access ends with this fault.
    Refusing(BusFault),
}

/// The values of `emulate` in the parameters of a node, for messages.
const BEHAVIOURS: &str = "counter, fifo, self_clearing, read_only, error and timeout";
/// Depth of an emulated FIFO in words, unless its node has a size.
const FIFO_WORDS: usize = 1 << 16;

/// Memory in which some addresses have a behaviour. All other addresses exist, and hold 0 until they are written.
#[derive(Clone, Debug, Default)]
pub struct Registers {
    pages: BTreeMap<u32, Box<[u32]>>,
    /// By first address: the last address, and the behaviour.
    behaving: BTreeMap<u32, (u32, Behaviour)>,
    configuration: Vec<u32>,
}

impl Registers {
    /// Plain memory.
    pub fn new() -> Registers {
        Registers::default()
    }

    /// Gives the addresses `first` to `last` one common behaviour, which replaces any that overlaps.
    pub fn behave(&mut self, first: u32, last: u32, behaviour: Behaviour) {
        let overlaps = |start: &u32, (end, _): &mut (u32, Behaviour)| *start > last || *end < first;
        self.behaving.retain(overlaps);
        self.behaving.insert(first, (last, behaviour));
    }

    /// Memory in which the nodes of a table have the behaviour in their `parameters`: `emulate=counter`, and so on; `value=…` is the initial
    /// count, or the word of a read-only register.
    ///
    /// # Errors
    /// When a parameter is invalid.
    pub fn of_table(table: &Table) -> Result<Registers, TableError> {
        let mut registers = Registers::new();
        for node in table.nodes() {
            let Some(behaviour) = node.parameters.get("emulate") else { continue };
            let failed = |message| TableError { file: node.file.to_path_buf(), line: node.line, message };
            let value = match node.parameters.get("value") {
                None => 0,
                Some(text) => {
                    number(text).ok_or_else(|| failed(format!("`value={text}` is not a 32-bit number")))?
                }
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
                other => return Err(failed(format!("`emulate={other}` is unknown; there are {BEHAVIOURS}"))),
            };
            registers.behave(node.address, node.address.saturating_add(node.span().max(1) - 1), behaviour);
        }
        Ok(registers)
    }

    /// Sets the words of the configuration address space.
    pub fn set_configuration(&mut self, words: Vec<u32>) {
        self.configuration = words;
    }

    /// A word of memory, regardless of behaviour.
    pub fn memory(&self, address: u32) -> u32 {
        let page = self.pages.get(&(address / PAGE_WORDS as u32));
        page.map_or(0, |page| page[address as usize % PAGE_WORDS])
    }

    /// Sets a word of memory, regardless of behaviour.
    pub fn set_memory(&mut self, address: u32, word: u32) {
        let page =
            self.pages.entry(address / PAGE_WORDS as u32).or_insert_with(|| vec![0; PAGE_WORDS].into());
        page[address as usize % PAGE_WORDS] = word;
    }

    /// Whether all of these words are plain memory.
    fn is_memory(&self, address: u32, words: usize) -> bool {
        let last = address.checked_add(words.saturating_sub(1) as u32);
        last.is_some_and(|last| {
            // Ranges with a behaviour do not overlap, so the last one to begin is also the last one to end.
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
        *self.configuration.get_mut(address as usize).ok_or(BusFault::Error)? = word;
        Ok(())
    }
}
