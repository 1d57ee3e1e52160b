//! The interface of the settings of emulated triggered boards, and of the boards.

use std::any::Any;
use std::fmt;

use thalweg_data::LinkId;

use crate::trigger::Hosted;

/// The settings of the boards behind an `emulate://` URL of a triggered source.
pub trait EmulatedBoards: Any + fmt::Debug + Send + Sync {
    /// Returns a copy.
    fn boxed(&self) -> Box<dyn EmulatedBoards>;

    /// The offset that these boards add to the number of each trigger.
    fn number_offset(&self) -> u64 {
        0
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// The key, the value, and what is allowed.
    fn check(&self) -> Result<(), String>;
}

impl Clone for Box<dyn EmulatedBoards> {
    fn clone(&self) -> Box<dyn EmulatedBoards> {
        self.as_ref().boxed()
    }
}

/// Number of emulated boards, and their connections.
#[derive(Clone, Copy, Debug)]
pub struct EmulatedShape {
    /// Number of links.
    pub links: usize,
    /// Number of boards behind each link.
    pub boards_per_link: u16,
    /// Whether they send a stream, if the URL says so.
    pub is_stream: Option<bool>,
}

impl EmulatedShape {
    /// Number of boards of all links together.
    pub fn boards(&self) -> usize {
        self.links * usize::from(self.boards_per_link)
    }
}

/// Emulated boards of one source, created once and shared by its links.
pub trait EmulatedLinks {
    /// The other end of one link.
    fn behind(&self, link: LinkId) -> OtherEnd;
}

/// Boards without registers, link by link.
pub(crate) struct BoardsByLink<B> {
    pub boards: Vec<B>,
    pub boards_per_link: u16,
}

impl<B: Hosted + Clone + 'static> EmulatedLinks for BoardsByLink<B> {
    fn behind(&self, link: LinkId) -> OtherEnd {
        let per_link = usize::from(self.boards_per_link);
        let own = self.boards.iter().skip(link.index() * per_link).take(per_link);
        (own.map(|board| Box::new(board.clone()) as Box<dyn Hosted>).collect(), None)
    }
}

/// The boards behind one link, and their registers if they have any.
pub type OtherEnd = (Vec<Box<dyn Hosted>>, Option<Box<dyn EmulatedRegisters>>);

/// The registers of emulated boards, as the host serves them on a UDP port.
pub trait EmulatedRegisters: Send {
    /// Answers a request, and reports it to the boards.
    fn answer(&mut self, datagram: &[u8], now_ns: u64, answers: &mut Vec<DueDatagram>);
}

/// A datagram to be sent at a given time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueDatagram {
    /// The time on the clock of `now_ns`.
    pub at_ns: u64,
    /// Its bytes.
    pub datagram: Vec<u8>,
}

/// The settings of a family's own emulated boards, or their defaults.
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
