#!/usr/bin/env python3
"""A link between two network namespaces that does to packets what networks do, by a seed.

    namespace A ── tun link0 ─► lost? doubled? each copy delayed at random (so: reordered) ─► tun link0 ── namespace B

Ends when its input has ended and everything is passed on, and prints as JSON what became of the packets from A to B.
"""

import argparse
import fcntl
import heapq
import json
import os
import random
import select
import struct
import subprocess
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
# Shorter packets are no data of boards: they are never touched, so that what is sent of BUSY arrives.
LEAST_DATA_BYTES = 400


def device(namespace):
    """A TUN device in a namespace; its descriptor stays here."""
    handle = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    name = f"tw{os.getpid() % 100000}{random.randrange(1000)}"
    fcntl.ioctl(handle, TUNSETIFF, struct.pack("16sH22s", name.encode(), IFF_TUN | IFF_NO_PI, b""))
    subprocess.run(["ip", "link", "set", name, "netns", namespace, "name", "link0"], check=True)
    subprocess.run(["ip", "-n", namespace, "link", "set", "link0", "txqueuelen", "10000"], check=True)
    return handle


class Direction:
    """Packets from one device to the other."""

    def __init__(self, seed, options):
        self.random, self.options = random.Random(seed), options
        self.waiting, self.order = [], 0
        self.counts = {"packets": 0, "lost": 0, "doubled": 0, "unsent": 0}

    def take(self, packet, now):
        """Decides what becomes of a packet."""
        copies = 1
        if len(packet) >= LEAST_DATA_BYTES:
            self.counts["packets"] += 1
            if self.random.random() < self.options.loss:
                self.counts["lost"] += 1
                return
            if self.random.random() < self.options.double:
                self.counts["doubled"] += 1
                copies = 2
        for _ in range(copies):
            delay = self.options.delay_ms + self.random.random() * self.options.jitter_ms
            self.order += 1
            heapq.heappush(self.waiting, (now + delay / 1000, self.order, packet))

    def give(self, handle, now):
        """Sends those whose time has come."""
        while self.waiting and self.waiting[0][0] <= now:
            packet = heapq.heappop(self.waiting)[2]
            try:
                os.write(handle, packet)
            except OSError:
                # What kernels say to each other before both ends are up is nobody's loss.
                self.counts["unsent"] += len(packet) >= LEAST_DATA_BYTES


def main():
    """Forwards until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("namespaces", nargs=2)
    parser.add_argument("--delay-ms", type=float, default=1.0)
    parser.add_argument("--jitter-ms", type=float, default=0.0)
    parser.add_argument("--double", type=float, default=0.0)
    parser.add_argument("--loss", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    ends = [device(namespace) for namespace in options.namespaces]
    there, back = Direction(options.seed, options), Direction(options.seed + 1, options)
    ways = [(ends[0], ends[1], there), (ends[1], ends[0], back)]
    forwarding = True
    # When the input has ended, what is on its way from A to B is passed on first.
    while forwarding or there.waiting:
        due = min((way.waiting[0][0] for _, _, way in ways if way.waiting), default=time.monotonic() + 0.1)
        inputs = [*ends, sys.stdin] if forwarding else ends
        ready, _, _ = select.select(inputs, [], [], max(0.0, due - time.monotonic()))
        forwarding = forwarding and sys.stdin not in ready
        now = time.monotonic()
        for source, sink, way in ways:
            try:
                while source in ready:
                    way.take(os.read(source, 65536), now)
            except BlockingIOError:
                pass
            way.give(sink, time.monotonic())
    print(json.dumps(there.counts))


if __name__ == "__main__":
    main()
