//! The stream of a connection between units.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg_transport::peer::check::check(bytes));
