#!/usr/bin/env bash
# Runs every fuzz target in turn.
#
#   fuzz.sh SECONDS
#
# Needs a nightly toolchain and cargo-fuzz, and says so where they are missing. On the stable toolchain alone,
# crates/frontend/tests/frontend/short_fuzz.rs mutates the same seeds for a few seconds in every `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=$1

absent=
rustup toolchain list 2>/dev/null | grep -q '^nightly' || absent="no nightly toolchain (rustup toolchain install nightly)"
cargo fuzz --version >/dev/null 2>&1 || absent="no cargo-fuzz (cargo install cargo-fuzz)"
if [ -n "$absent" ]; then
    echo "fuzz: not run: $absent" >&2
    exit 1
fi

# Under AddressSanitizer, for the unsafe code of decoders and pools; panics, hangs and growth are findings, too.
cargo +nightly fuzz build --sanitizer address
# Made by the encoders, so that the fuzzer starts from inputs that mean something.
cargo run --quiet --manifest-path fuzz/Cargo.toml --example seeds
targets=$(cargo +nightly fuzz list)
for target in $targets; do
    echo "fuzz: $target for $seconds s"
    mkdir -p "fuzz/corpus/$target" "fuzz/seeds/$target"
    cargo +nightly fuzz run --sanitizer address "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
        -max_total_time="$seconds" -max_len=65536 -timeout=5 -rss_limit_mb=2048 -print_final_stats=1 2>&1 |
        grep -E 'panicked|ERROR|SUMMARY|number_of_executed_units|peak_rss_mb' || { echo "fuzz: $target failed" >&2; exit 1; }
    if [ -n "$(ls "fuzz/artifacts/$target" 2>/dev/null)" ]; then
        echo "fuzz: $target has findings in fuzz/artifacts/$target" >&2
        exit 1
    fi
done
