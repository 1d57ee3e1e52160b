//! The control protocol of x27xx boards, from both ends.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg_frontend::check::control(bytes));
