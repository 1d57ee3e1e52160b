"""Ports for programs that the tests start."""

import random
import socket


def free_port():
    """A port that is free for datagrams and streams, below those of which the system gives any to others meanwhile."""
    while True:
        port = random.randrange(6_000, 12_000)
        try:
            with socket.socket() as streams, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
                streams.bind(("127.0.0.1", port))
                datagrams.bind(("127.0.0.1", port))
                return port
        except OSError:
            continue
