//! Packets of IPbus: as they are read, and as an emulated board answers them.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    thalweg_ipbus::wire::check(bytes);
    thalweg_ipbus::device::check(bytes);
});
