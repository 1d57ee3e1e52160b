//! Descriptions of sources, as TOML text.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg_frontend::generic::check_description(bytes, |text| {
    toml::from_str(text).ok()
}));
