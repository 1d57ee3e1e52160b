//! ABCD event files.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg_frontend::abcd::check(bytes));
