//! Fragments in datagrams and in streams.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg_frontend::format::FuzzTarget::try_bytes("fragment", bytes));
