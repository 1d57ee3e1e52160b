//! Words between readout units, builder units and event manager.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg_build::unit::check::check(bytes));
