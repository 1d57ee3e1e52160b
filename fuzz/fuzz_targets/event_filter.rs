//! Expressions over built events: read, and asked of events made of the same bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg_analysis::event_filter::check(bytes));
