//! The control protocol of x27xx boards, from both ends.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg_frontend::format::FuzzTarget::try_bytes("digitizer2_control", bytes));
