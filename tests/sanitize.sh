#!/usr/bin/env bash
# The tests of the crates with unsafe code in their hot paths, under AddressSanitizer and ThreadSanitizer.
#
#   sanitize.sh TARGET_DIRECTORY
#
# Needs a nightly toolchain with its source, and says so where they are missing: the standard library is built with the sanitizer, too, as
# ThreadSanitizer otherwise does not see what its locks and channels synchronise.
set -euo pipefail
cd "$(dirname "$0")/.."
directory=$1
host=$(rustc -vV | sed -n 's/^host: //p')

if ! rustup component list --toolchain nightly 2>/dev/null | grep -q '^rust-src (installed)'; then
    echo "sanitize: not run: no nightly toolchain with its source (rustup toolchain install nightly --component rust-src)" >&2
    exit 1
fi

run() {
    local sanitizer=$1
    shift
    echo "sanitize: $sanitizer: $*"
    RUSTFLAGS="-Zsanitizer=$sanitizer" CARGO_TARGET_DIR="$directory/$sanitizer" \
        cargo +nightly test -Zbuild-std --locked --quiet --target "$host" "$@"
}

export ASAN_OPTIONS=detect_leaks=0
export TSAN_OPTIONS=halt_on_error=1
export PROPTEST_CASES=${PROPTEST_CASES:-32}
run address -p thalweg-data -p thalweg-frontend -p thalweg-order --lib
run address -p thalweg-data --test data -- --skip models
run thread -p thalweg-data --lib
run thread -p thalweg-data --test data -- --skip models
