//! Emulated boards: one fragment per trigger, whose content can be checked.
//!
//! ```text
//!  Settings ─► Content: prepared bytes, shared by all boards
//!                 │ (board, trigger) ─► a range of them
//!  Trigger ─► Board ─► header written for each trigger + that range ─► datagrams · stream
//! ```

mod board;
mod content;
mod settings;

pub use board::{Board, boards};
pub use content::Content;
pub use settings::{Settings, SettingsError};
