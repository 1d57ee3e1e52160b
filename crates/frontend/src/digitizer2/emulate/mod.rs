//! The emulated board.
