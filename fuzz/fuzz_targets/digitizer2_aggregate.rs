//! Events of x27xx boards.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| drop(thalweg_frontend::digitizer2::check::aggregate(bytes)));
