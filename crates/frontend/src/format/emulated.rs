//! What is asked of the settings of emulated triggered boards, and of the boards.

use std::any::Any;
use std::fmt;

use thalweg_data::LinkId;

use crate::sitcp::emulate::SharedRegisters;
use crate::trigger::Hosted;

/// The settings of the boards behind an `emulate://` URL of a triggered source.
pub trait EmulatedBoards: Any + fmt::Debug + Send + Sync {
    /// A copy of them.
    fn boxed(&self) -> Box<dyn EmulatedBoards>;

    /// What these boards add to the number of each trigger.
    fn number_offset(&self) -> u64 {
        0
    }

    /// Whether there can be such boards.
    ///
    /// # Errors
    /// In words: which key, what was found, what is allowed.
    fn check(&self) -> Result<(), String>;
}

impl Clone for Box<dyn EmulatedBoards> {
    fn clone(&self) -> Box<dyn EmulatedBoards> {
        self.as_ref().boxed()
    }
}

/// How many emulated boards there are, and how they are reached.
#[derive(Clone, Copy, Debug)]
pub struct EmulatedShape {
    /// Links.
    pub links: usize,
    /// Boards behind each.
    pub boards_per_link: u16,
    /// Whether they send a stream, where the URL says it.
    pub is_stream: Option<bool>,
}

impl EmulatedShape {
    /// Boards of all links together.
    pub fn boards(&self) -> usize {
        self.links * usize::from(self.boards_per_link)
    }
}

/// Emulated boards of one source, made once per kind and shared from there.
pub trait EmulatedLinks {
    /// The boards behind one link, and their registers.
    fn behind(&self, link: LinkId) -> (Vec<Box<dyn Hosted>>, Option<SharedRegisters>);
}

/// The settings of a family's own emulated boards: its defaults where there are none.
pub(crate) fn own_emulated<S: EmulatedBoards + Clone + Default>(
    emulated: Option<&dyn EmulatedBoards>,
) -> Result<S, String> {
    match emulated {
        None => Ok(S::default()),
        Some(settings) => (settings as &dyn Any)
            .downcast_ref::<S>()
            .cloned()
            .ok_or_else(|| "[source.emulate] describes boards of another format".to_owned()),
    }
}
