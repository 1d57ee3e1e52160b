#!/usr/bin/env bash
# Runs a command while the scheduler does not group programs by session, and says so; without root it only runs it.
#
# Linux 6.12.10 to 6.18.44 (commit 6d71a9c61604, taken back by 101f3498b4bd) gives a group whose programs keep going to sleep and
# waking up the processor before everything outside of it. On a busy machine the kernel's threads that deliver packets and write to
# disks were found without a turn for 48 s, and tests that waited for them failed.
#
#   ungrouped.sh COMMAND…
set -euo pipefail
switch=/proc/sys/kernel/sched_autogroup_enabled
if [ "$(cat "$switch" 2>/dev/null)" = 1 ] && { echo 0 >"$switch"; } 2>/dev/null; then
    echo "kernel.sched_autogroup_enabled is 0 until the tests are over (tests/ungrouped.sh)"
    trap 'echo 1 >"$switch"' EXIT
fi
"$@"
