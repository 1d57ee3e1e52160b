"""Programs that serve, for the scripts that hold ours against the originals."""

import signal
import subprocess
import sys
from contextlib import contextmanager

# How long a program may take to begin or to end on a busy machine.
WAIT_SECONDS = 60


@contextmanager
def running(process):
    """A program that is ended when it is left."""
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


@contextmanager
def serving(program, what, *arguments):
    """A command of ours that serves, once it has said so, until it is left."""
    process = subprocess.Popen([program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    with running(process):
        for line in process.stderr:
            if what in line:
                break
        else:
            sys.exit(f"{arguments} has ended")
        yield
