#!/usr/bin/env bash
# The tests of the crates with unsafe code in their hot paths, under AddressSanitizer and ThreadSanitizer.
#
#   sanitize.sh TARGET_DIRECTORY
#
# Needs a nightly toolchain, and says so where it is missing. The standard library is the prebuilt one, which is not instrumented:
# ThreadSanitizer then does not see the fence in `Arc`'s drop, and those reports alone are suppressed (tests/tsan.suppressions).
set -euo pipefail
cd "$(dirname "$0")/.."
directory=$1
host=$(rustc -vV | sed -n 's/^host: //p')

if ! rustup toolchain list 2>/dev/null | grep -q '^nightly'; then
    echo "sanitize: not run: no nightly toolchain (rustup toolchain install nightly)" >&2
    exit 1
fi

run() {
    local sanitizer=$1
    shift
    echo "sanitize: $sanitizer: $*"
    RUSTFLAGS="-Zsanitizer=$sanitizer -Cunsafe-allow-abi-mismatch=sanitizer" \
        CARGO_TARGET_DIR="$directory/$sanitizer" \
        cargo +nightly test --locked --quiet --target "$host" "$@"
}

export ASAN_OPTIONS=detect_leaks=0
export TSAN_OPTIONS="suppressions=$PWD/tests/tsan.suppressions halt_on_error=1"
export PROPTEST_CASES=${PROPTEST_CASES:-32}
run address -p thalweg-data -p thalweg-frontend -p thalweg-order --lib
run address -p thalweg-data --test data -- --skip models
run thread -p thalweg-data --lib
run thread -p thalweg-data --test data -- --skip models
