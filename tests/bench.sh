#!/usr/bin/env bash
# Runs benches one after another and keeps what each prints.
#
#   bench.sh BINARY DIRECTORY all|NAME
set -euo pipefail
binary=$1
directory=$2
wanted=$3

mkdir -p "$directory"
if [ "$wanted" = all ]; then
    names=$("$binary" bench list --json | python3 -c 'import json, sys; print("\n".join(each["name"] for each in json.load(sys.stdin)))')
else
    names=$wanted
fi
for name in $names; do
    "$binary" bench "$name" --json >"$directory/$name.json"
    python3 - "$directory/$name.json" <<'PRINT'
import json, sys
text = open(sys.argv[1]).read()
for line in text.splitlines():
    row = json.loads(line)
    print(f"{row['bench']:28} {row['value']:14.4g} {row['unit']:12} {row['ratio']:7.3f} of: {row['baseline']}")
PRINT
done
echo "bench: written to $directory"
