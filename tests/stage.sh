#!/usr/bin/env bash
# Runs one stage of `make test`, prints what it printed, and notes how long it took.
#
#   stage.sh TIMES NAME COMMAND…
set -uo pipefail
times=$1
name=$2
shift 2

started=$EPOCHREALTIME
"$@"
status=$?
awk -v name="$name" -v started="$started" -v ended="$EPOCHREALTIME" -v status="$status" \
    'BEGIN { printf "%-12s %7.1f s%s\n", name, ended - started, status ? "  FAILED" : "" }' >>"$times"
exit "$status"
