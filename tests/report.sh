#!/usr/bin/env bash
# What `make test` says last: how long each stage took, and which tests this machine let nobody run.
#
#   report.sh TIMES SKIPPED
set -euo pipefail
times=$1
skipped=$2

echo "make test took:"
sort -k2 -n -r "$times" | sed 's/^/  /'
count=0
if [ -s "$skipped" ]; then
    count=$(wc -l <"$skipped")
    echo "skipped $count for what this machine lacks:"
    sort "$skipped" | sed 's/^/  /'
fi
failed=$(grep -c FAILED "$times" || true)
echo "stages: $(($(wc -l <"$times") - failed)) passed, $failed failed, $count tests skipped"
[ "$failed" -eq 0 ]
