#!/usr/bin/env bash
# Runs one stage of `make test`, prints what it printed, and notes how long it took, and how long processors worked for it.
#
#   stage.sh TIMES NAME COMMAND…
set -uo pipefail
times=$1
name=$2
shift 2

started=$EPOCHREALTIME
"$@"
status=$?
# Into a file: a pipe or $( ) would be a shell of its own, without those children. The second line is user and system time of children that
# have ended, as in 1m2.345s.
times >"$times.$name"
processor=$(awk 'NR == 2 { for (each = 1; each <= 2; each++) { split($each, part, /[ms]/); sum += 60 * part[1] + part[2] } print sum }' "$times.$name")
rm "$times.$name"
awk -v name="$name" -v started="$started" -v ended="$EPOCHREALTIME" -v processor="$processor" -v status="$status" \
    'BEGIN { printf "%-12s %7.1f s, processors %7.1f s%s\n", name, ended - started, processor, status ? "  FAILED" : "" }' >>"$times"
exit "$status"
