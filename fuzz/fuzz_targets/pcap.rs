//! Captures: pcap and pcapng.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg_readout::pcap::check(bytes));
