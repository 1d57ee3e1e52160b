//! CAEN Digitizer 2.0 (x27xx) boards.

pub mod control;
pub mod emulate;
