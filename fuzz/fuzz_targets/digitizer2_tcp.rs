//! Streams of x27xx boards.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg_frontend::format::FuzzTarget::try_bytes("digitizer2_tcp", bytes));
