//! Expressions of cuts: read, and evaluated on hits made of the same bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg_analysis::cut::check(bytes));
