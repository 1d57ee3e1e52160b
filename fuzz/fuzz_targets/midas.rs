//! Files of MIDAS events, of either byte order.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| drop(thalweg_export::check_midas(bytes)));
