//! Exports and imports through the library.

mod import_round_trip;
mod incomplete;
