#!/usr/bin/env bash
# Packs every crate as a registry would have it, and with `verify` builds the command and the library out of the packages alone.
#
#   package.sh TARGET [verify]
#
# Nothing is published from here: `publish = false`. So cargo does not resolve one package in terms of another, which is what a lock
# file in a package, and cargo's own verification, need; the packages are put beside each other instead.
set -euo pipefail
target=$1
packages=$target/package
rm -rf "$packages"/thalweg*
cargo package --workspace --exclude thalweg-prerequisite --no-verify --exclude-lockfile --allow-dirty --quiet --target-dir "$target"
echo "package: $(ls "$packages"/*.crate | wc -l) packages in $packages"
[ "${2:-}" = verify ] || exit 0

unpacked=$packages/unpacked
rm -rf "$unpacked"
mkdir -p "$unpacked"
for package in "$packages"/*.crate; do
    tar -xzf "$package" -C "$unpacked"
done
{
    printf '[workspace]\nresolver = "3"\nmembers = ["thalweg-*"]\n[patch.crates-io]\n'
    for folder in "$unpacked"/thalweg-[a-z]*; do
        name=$(basename "$folder")
        echo "${name%-*} = { path = \"$name\" }"
    done
} >"$unpacked/Cargo.toml"
cp Cargo.lock "$unpacked/Cargo.lock"
cargo check --manifest-path "$unpacked/Cargo.toml" --package thalweg --quiet --target-dir "$packages/build"
cargo check --manifest-path "$unpacked/Cargo.toml" --package thalweg --no-default-features --quiet --target-dir "$packages/build"
echo "package: the command and the library build out of them"
