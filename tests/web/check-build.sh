#!/bin/sh
# Whether the page that is committed, and becomes part of the binary, is the one that its sources give.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
committed=$here/../../crates/monitor/page
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT

node "$here/../../web/build.mjs" "$fresh"
for name in index.html app.css app.js; do
    cmp "$fresh/$name" "$committed/$name" || { echo "crates/monitor/page/$name is not what web/ gives: run 'make page' and commit it" >&2; exit 1; }
done
# Other versions of zlib may pack otherwise: what is unpacked counts.
for name in app.css app.js; do
    gzip -dc "$committed/$name.gz" | cmp - "$committed/$name" || { echo "crates/monitor/page/$name.gz is of another build: run 'make page' and commit it" >&2; exit 1; }
done
echo "the committed page is the one that web/ gives"
