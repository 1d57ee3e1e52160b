//! Our own recordings.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| drop(thalweg_record::check(bytes)));
