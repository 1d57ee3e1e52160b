//! The register protocol of SiTCP boards, from both ends.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg_frontend::format::FuzzTarget::try_bytes("sitcp_registers", bytes));
