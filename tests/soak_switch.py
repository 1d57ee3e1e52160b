#!/usr/bin/env python3
"""Are devices named that the measurement knows nothing of, and does one that is not overloaded lose nothing for SECONDS?

    blind   DEVICES devices of this kernel, rate, depth and queues drawn by a seed: thalweg qualify watershed names all three
    soak    0.9 of what an output carries: nothing is lost that nobody counts; one page of it in REPORT

Prints a line per device and ends with 1 when a kind of queues is named wrongly, when intervals hold fewer than nine truths in ten, or when
a loss is not explained. A map that is refused says why and is counted apart: a busy machine sends nothing as asked.
"""

import argparse
import json
import subprocess
import sys

SEPARATIONS = 10
MOST_REFUSED = 0.25
LEAST_HELD = 0.9


def qualify(binary, *words):
    """What a command prints as JSON, whatever its exit code."""
    ended = subprocess.run([binary, "qualify", *words, "--json"], stdout=subprocess.PIPE, check=False)
    return json.loads(ended.stdout)


def blind(binary, seed):
    """Whether the kind is right, whether both intervals hold the truth; None where nothing is named."""
    device = f"blind={seed},datagram=8972"
    found = qualify(binary, "watershed", "--testbed", device, "--columns", str(SEPARATIONS))
    made = found["testbed"]
    title = f"device {seed}: {made['rate_bits_per_s'] / 1e6:.1f} Mb/s, {made['queues']}"
    if found["fit"] is None:
        print(f"{title}: refused: {found['remark']}", flush=True)
        return None
    kind = found["model"]["verdict"] == found["true_queues"]

    def held(interval, truth):
        return interval[0] <= truth <= interval[1]

    depth = held(found["fitted_depth_interval"], found["true_depth_bytes"])
    rate = held(found["fitted_rate_interval"], found["true_rate_bits_per_s"])
    off = [found[f"fitted_{of}"] / found[f"true_{of}"] - 1 for of in ("depth_bytes", "rate_bits_per_s")]
    print(f"{title}: named {found['model']['verdict']}, depth {off[0]:+.2%}{'' if depth else ' (outside)'}, "
          f"rate {off[1]:+.2%}{'' if rate else ' (outside)'}, {found['seconds']:.0f} s", flush=True)
    return kind, depth, rate


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--binary", required=True)
    arguments.add_argument("--devices", type=int, default=20)
    arguments.add_argument("--seconds", type=float, default=600)
    arguments.add_argument("--report", default="soak-switch.html")
    options = arguments.parse_args()
    named = [blind(options.binary, seed) for seed in range(1, options.devices + 1)]
    known = [each for each in named if each is not None]
    kinds, depths, rates = (sum(each[of] for each in known) for of in range(3))
    print(f"{len(known)} of {len(named)} devices named: {kinds} kinds right, {depths} depths and {rates} rates within their intervals")
    faults = []
    if len(named) - len(known) > MOST_REFUSED * len(named):
        faults.append("too many maps were refused")
    if kinds < len(known):
        faults.append("a kind of queues is wrong")
    if min(depths, rates) < LEAST_HELD * len(known):
        faults.append("intervals hold too few truths")
    if options.seconds > 0:
        device = ["--testbed", "rate=800Mbit,depth=8MB,datagram=8972"]
        found = qualify(options.binary, "soak", *device, "--seconds", str(options.seconds), "--report", options.report)
        print(f"soak: {found['lost']} of {found['sent']} lost in {found['seconds']:.0f} s, {found['unexplained']} of them nobody counts; {options.report}")
        if found["unexplained"]:
            faults.append("a loss is not explained")
        if found["disturbed"] == len(found["points"]):
            faults.append("the load was never applied")
    print("; ".join(faults) or "as it should be")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
