//! Descriptions of sources, as TOML text.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg_frontend::format::FuzzTarget::try_bytes("description", bytes));
