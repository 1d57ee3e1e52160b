#!/usr/bin/env python3
"""Do runs that nobody has thought of come to their end, and is everything in their ledger?

    seed ─► a configuration with little memory ─► thalweg run, and some trouble ─► thalweg verify, thalweg export
                                                     └─► thalweg replay ─► the same bits

Trouble is SIGKILL (and thalweg recover), an early stop, a process that gets no processor for a while, or a disk that is full soon.

Each case is drawn from its seed and number, and can be repeated alone: emulated boards with faults, waveforms and small datagrams, several
workers, boards behind one reader, slices, time order short of memory, triggered boards with units and a filter. Whatever is lost, a run must
end, its ledger must balance, its files must be whole, and what is in them must come out of its raw bytes once more.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

# A run that has not ended so long after it was to stop stands still. Builder units wait for parts of overloaded readout units for a while.
END_SECONDS = 60
# A program that is not optimised takes a quarter of a second for a MB of Parquet.
EXPORT_SECONDS = 300
# The least memory that a refusal names may be refused once more, for the next part that needs some.
REFUSALS = 6
# Tables that a replay makes anew, bit by bit. Times of receipt are in the others.
REPRODUCED = ("hits", "extras", "waveforms")
TRIGGERED = ["events", "fragments", "raw"]


@dataclass
class Case:
    """A configuration, and what may be asked of it."""

    kind: str
    sections: list
    tables: list
    seconds: int = 2
    # Of these tables, a replay gives the same bits.
    reproduced: tuple = field(default=())


def value(of):
    """A value as TOML has it."""
    if isinstance(of, dict):
        return "{ " + ", ".join(f"{key} = {value(each)}" for key, each in of.items()) + " }"
    return json.dumps(of)


def section(header, **keys):
    """A section of a configuration; keys without a value are left out."""
    lines = [f"{key} = {value(of)}" for key, of in keys.items() if of is not None]
    return "\n".join([header, *lines]) + "\n"


def source(draw, name, form, emulated, faults=None, least_mib=1, **keys):
    """An emulated source with little memory."""
    return [
        section(
            "[[source]]",
            name=name,
            format=form,
            url="emulate://",
            memory_bytes=least_mib << 20 << draw.choice([0, 1, 2, 3, 4]),
            block_bytes=draw.choice([None, None, 65_536, 131_072]),
            **keys,
        ),
        *([section("[source.faults]", **faults)] if faults else []),
        section("[source.emulate]", **emulated),
    ]


def wire_faults(draw):
    """Datagrams that are lost, doubled and overtaken on their way."""
    return {
        "drop": draw.choice([0, 0.02, 0.1]),
        "duplicate": draw.choice([0, 0.02]),
        "reorder": draw.choice([0, 0.02, 0.1]),
        "seed": draw.randrange(99),
    }


def digitizers(draw, boards):
    """Digitizer boards of eight channels; some hits have waveforms of up to 2000 samples."""
    reader = draw.choice([None, "boards"]) if boards > 1 else None
    # Sources with one reader have one thread.
    workers = None if reader else draw.choice([None, 2, 3])
    found = []
    for board in range(boards):
        samples = draw.choice([None, 16, 200, 2000])
        emulated = {
            "board": board,
            "boards": boards,
            "channels": 8,
            "rate_hz": draw.choice([500.0, 5000.0, 20_000.0]),
            "datagram_bytes": draw.choice([1000, 8000]),
            "aggregate_hits": 20,
            "aligned_datagrams": False,
            "waveform_samples": samples,
            "waveform_every": draw.choice([1, 10, 100]) if samples else None,
        }
        keys = {"channels": 8, "first_channel": 8 * board, "workers": workers, "reader": reader}
        found += source(draw, "ab"[board], "digitizer2", emulated, wire_faults(draw), **keys)
    return found


def build(draw):
    """What is done with events that miss fragments."""
    policy = draw.choice([None, {}, {"incomplete": "drop"}])
    return [] if policy is None else [section("[build]", age_ms=20, **policy)]


def recording(draw, tables, **fixed):
    """How it is recorded: in small batches or large ones, in one file or several, compressed or not."""
    keys = draw.choice([{}, {"batch_bytes": 50_000}, {"batch_age_s": 0.02}, {"batch_hits": 1000}])
    keys |= {
        "compression": draw.choice([None, None, "lz4", "zstd"]),
        "sync": draw.choice([None, None, None, "batch", 0.5]),
        "on_full": draw.choice([None, "end", "pause"]),
        "least_free_bytes": draw.choice([None, None, 4_000_000]),
        "files": draw.choice([None, None, {"most_bytes": 1_000_000}, {"most_rows": 1000}, {"most_s": 1}]),
    }
    return section("[record]", directory="runs", tables=tables, **keys | fixed)


def other_numbers(draw, text):
    """The same configuration with one number or more that nobody would write."""
    lines = text.splitlines()
    for _ in range(draw.choice([1, 2, 4])):
        kept = ("memory_bytes", "url", "name", "sources", "tables")
        places = [place for place, line in enumerate(lines) if re.search(r"= .*\d", line) and not line.startswith(kept)]
        place = draw.choice(places)
        number = draw.choice(list(re.finditer(r"\d+(\.\d+)?", lines[place])))
        old = float(number[0])
        new = draw.choice([0, 1, 3, 17, 100, old / 2, old * 2, old * 9, old + 1])
        text_of_new = str(float(new)) if "." in number[0] else str(int(new))
        lines[place] = lines[place][: number.start()] + text_of_new + lines[place][number.end() :]
    return "\n".join(lines) + "\n"


def trigger(draw):
    """A trigger that is too fast for some of the boards."""
    rate_hz, triggers = draw.choice([500.0, 3000.0, 20_000.0]), draw.choice([1000, 4000])
    return [section("[trigger]", program="constant", rate_hz=rate_hz, triggers=triggers)]


def hits(draw):
    """Hits of one or two boards, in coincidence or not."""
    boards = draw.choice([1, 2])
    behind = [section("[coincidence]", window_ps=100_000)] if draw.random() < 0.5 else []
    if draw.random() < 0.3:
        behind.append(section("[[cut]]", name="bright", keep=draw.choice(["energy > 1000", "channel != 3"])))
    if draw.random() < 0.2:
        behind.append(section("[[stage]]", kind="prescale", keep_one_in=draw.choice([2, 100])))
    tables = ["hits", "extras", "waveforms", "coincidences", "raw"]
    return Case("hits", digitizers(draw, boards) + behind, tables, reproduced=REPRODUCED)


def short_order(draw):
    """Time order that has little memory, or does not wait long enough."""
    order = section(
        "[order]",
        memory_bytes=draw.choice([1_048_576, 16_777_216]),
        stall_ms=draw.choice([1, 20, 500]),
        disorder_ps=draw.choice([0, 100_000, 1_000_000_000, 20_000_000_000]),
        full=draw.choice([None, None, "drop"]),
        late=draw.choice([None, None, "drop"]),
    )
    # What is late depends on when it was received.
    return Case("short-order", [*digitizers(draw, 2), order], ["hits", "extras", "waveforms", "raw"])


def scope(draw):
    """Records of a digitizer without a pulse finder, some larger than a block."""
    emulated = {
        "firmware": "scope",
        "channels": draw.choice([2, 8, 64]),
        "waveform_samples": draw.choice([512, 8192, 32_768]),
        "prepared": True,
        "prepared_mib": 16,
        "aligned_datagrams": False,
        "external_trigger_hz": draw.choice([20.0, 50.0, 200.0]),
    }
    sections = source(draw, "a", "digitizer2", emulated, wire_faults(draw))
    # Whose the waveforms are is left out, or not.
    tables = draw.choice([["hits"], []]) + ["extras", "waveforms", "raw"]
    return Case("scope", sections, tables, reproduced=REPRODUCED)


def slices(draw):
    """Hits in slices of time."""
    strict = draw.choice([{}, {"disorder_ps": 0, "silence_ms": 1}])
    sections = [*digitizers(draw, 2), section("[slices]", slice_ps=1_000_000_000, **strict)]
    return Case("slices", sections, ["hits", "events", "fragments", "raw"])


def fragments(draw):
    """Triggered boards over UDP, whose fragments are larger than a datagram."""
    emulated = {
        "payload_bytes": draw.choice([100, 900, 9000]),
        "datagram_bytes": draw.choice([400, 8000]),
        "checksum": True,
    }
    boards = source(draw, "a", "fragment", emulated, boards=draw.choice([1, 4, 20]))
    return Case("fragments", [*boards, *trigger(draw), *build(draw)], TRIGGERED)


def streamed_fragments(draw):
    """Triggered boards over TCP, by number or in slices of time."""
    emulated = {"payload_bytes": draw.choice([200, 5000]), "tick_ps": 1000, "stream": True}
    boards = source(draw, "a", "fragment", emulated, boards=3, tick_ps=1000)
    in_slices = [section("[slices]", slice_ps=1_000_000_000)] if draw.random() < 0.5 else []
    return Case("streamed-fragments", [*boards, *trigger(draw), *in_slices, *build(draw)], TRIGGERED)


def sitcp_boards(draw, name, boards):
    """RECBE boards that lose, double and cut what they send, or do not."""
    faults = {"lose_every": 40, "double_every": 50, "empty_every": 30, "twelve_every": 20}
    emulated = {"faults": draw.choice([None, faults])}
    return source(draw, name, "sitcp", emulated, boards=boards, profile="recbe", named_by="connection")


def sitcp(draw):
    """RECBE boards of two sources."""
    boards = [*sitcp_boards(draw, "a", 3), *sitcp_boards(draw, "b", 2)]
    return Case("sitcp", [*boards, *trigger(draw), *build(draw)], TRIGGERED)


def units(draw):
    """Readout units of one to three sources, one to three builder units, a manager, and a filter or none."""
    names, sections = "abc"[: draw.choice([1, 2, 3])], []
    kind = draw.choice(["sitcp", "tcp", "udp"])
    for index, name in enumerate(names):
        emulated = {"payload_bytes": draw.choice([100, 900, 9000])}
        match kind:
            case "sitcp":
                sections += sitcp_boards(draw, name, draw.choice([1, 3, 8]))
                continue
            case "tcp":
                emulated["stream"] = True
            case "udp":
                emulated |= {"datagram_bytes": draw.choice([400, 8000]), "checksum": True}
        boards = {"boards": draw.choice([1, 4]), "first_board": 10 * index}
        sections += source(draw, name, "fragment", emulated, **boards)
    sections += [section("[[unit]]", name=f"ru-{name}", kind="readout", sources=[name]) for name in names]
    sections += [section("[[unit]]", name=f"bu-{index}", kind="builder") for index in range(draw.choice([1, 2, 3]))]
    # What becomes of incomplete events is not chosen where several units read the boards.
    age = draw.choice([[], [section("[build]", age_ms=20)]])
    sections += [section("[[unit]]", name="evm", kind="manager"), *trigger(draw), *age]
    if draw.random() < 0.5:
        ranges = {"range_events": draw.choice([1, 16, 256]), "slots": draw.choice([256, 4096])}
        sections.append(section("[build.units]", ordered=draw.choice([True, False]), **ranges))
    if draw.random() < 0.3:
        workers, prescale = draw.choice([1, 3]), draw.choice([0, 7])
        keep = draw.choice(["trigger < 500", "complete"])
        sections.append(section("[filter]", keep=keep, workers=workers, prescale=prescale))
    return Case(f"units-{kind}", sections, ["events", "fragments"], seconds=12)


KINDS = [hits, short_order, scope, slices, fragments, streamed_fragments, sitcp, units]


class Folder:
    """The folder of a case, and the program that is run in it."""

    def __init__(self, path, binary):
        self.path, self.binary, self.findings = path, binary, []
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)

    def thalweg(self, *arguments, seconds=END_SECONDS, trouble=None):
        """Runs the program: its exit code, negative where a signal ended it, and all it said. One that does not end is a finding."""
        command = subprocess.Popen(
            [self.binary, *arguments], cwd=self.path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        troubling = threading.Thread(target=trouble or (lambda _: None), args=[command])
        troubling.start()
        try:
            output, errors = command.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            command.send_signal(signal.SIGKILL)
            output, errors = command.communicate()
            self.find(f"`thalweg {arguments[0]}` has not ended after {seconds} s", errors)
        troubling.join()
        (self.path / f"{arguments[0]}.txt").write_text(output + errors)
        if "panicked" in errors:
            self.find(f"`thalweg {arguments[0]}` panicked", errors)
        return command.returncode, output, errors

    def find(self, what, said=""):
        """Takes a finding down, with the end of what the program has said."""
        self.findings.append(what + "".join(f"\n    {line}" for line in said.strip().splitlines()[-5:]))

    def ledger_of(self, command, output):
        """Looks at the ledger that a command has printed at its end; gives all that it has printed there."""
        try:
            summary = json.loads(output.strip().splitlines()[-1])
        except (json.JSONDecodeError, IndexError):
            self.find(f"`thalweg {command}` ended without a summary", output)
            return None
        if not summary["ledger_closed"]:
            found = "\n".join(str(each) for each in summary["discrepancies"])
            self.find(f"the ledger of `thalweg {command}` does not balance", found)
        return summary

    def configure(self, case, draw):
        """Writes the configuration, with the least memory that is not refused; whether it can be used. With some other numbers it may not."""
        record = recording(draw, case.tables)
        text = "\n".join([*case.sections, record])
        has_other_numbers = draw.random() < 0.2
        if has_other_numbers:
            text = other_numbers(draw, text)
        for _ in range(REFUSALS):
            (self.path / "run.toml").write_text(text)
            code, _, errors = self.thalweg("run", "run.toml", "--explain")
            least = re.search(r"write `?memory_bytes = (\d+)", errors)
            if code == 0 or not least:
                break
            raised = lambda found, least=int(least[1]): f"memory_bytes = {max(int(found[1]), least)}"
            text = re.sub(r"memory_bytes = (\d+)", raised, text)
        if code != 0 and not (has_other_numbers and code == 2):
            self.find("the configuration is refused", errors)
        return code == 0

    def run(self, case, draw):
        """Takes data, with or without trouble: the name of the trouble."""
        name, trouble = draw_trouble(draw, case.seconds)
        if name == "small disk" and not self.mount(draw.choice([24, 40, 80])):
            name = None
        _, output, _ = self.thalweg(
            "run", "run.toml", "--seconds", str(case.seconds), "--json", seconds=case.seconds + END_SECONDS, trouble=trouble
        )
        if name != "killed":
            self.ledger_of("run", output)
        return name

    def mount(self, mib, node="."):
        """A disk of its own for the runs; only root may have one."""
        if os.geteuid() != 0:
            return False
        runs = self.path / node / "runs"
        runs.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", runs], check=True)
        return True

    def mount_more(self, node="."):
        """Makes that disk large enough for anything."""
        subprocess.run(["mount", "-o", "remount,size=2000m", self.path / node / "runs"], check=True)

    def unmount(self, node="."):
        """Keeps what is on the disk of its own, and takes the disk away."""
        runs = self.path / node / "runs"
        if runs.is_mount():
            shutil.copytree(runs, self.path / "kept")
            subprocess.run(["umount", runs], check=True)
            runs.rmdir()
            (self.path / "kept").rename(runs)

    def verify(self, run):
        """Looks at the files of a run, recovered if it was killed: the rows of each."""
        code, output, errors = self.thalweg("verify", str(run), "--json")
        try:
            report = json.loads(output)
        except json.JSONDecodeError:
            report = {"problems": [output[-2000:] + errors], "tables": []}
        if code != 0:
            self.find("`thalweg verify` found something", "\n".join(report["problems"]))
        return {table["file"]: table["rows"] for table in report["tables"]}

    def check(self, case, draw, trouble):
        """Looks at what was recorded, exports it, and replays it."""
        runs = list((self.path / "runs").glob("[0-9]*"))
        if not runs:
            if trouble is None:
                self.find("nothing was recorded")
            return
        (run,) = runs
        if (run / "run.json").exists() and trouble == "killed":
            code, output, errors = self.thalweg("recover", str(run), "--json")
            if code not in (0, 1):
                self.find("`thalweg recover` failed", output + errors)
        if trouble in ("killed", "small disk"):
            self.verify(run)
        else:
            self.check_files(draw, run, case.tables, case.reproduced)

    def check_files(self, draw, run, tables, reproduced=()):
        """Looks at the files of a run that ended as it should, exports them, and replays it."""
        rows = self.verify(run)
        self.export(run, rows, draw.choice(["parquet", "csv", "mid", "mid", "compass"]))
        if "raw" not in tables:
            return
        _, output, _ = self.thalweg("replay", str(run), "--directory", "again", "--json")
        self.ledger_of("replay", output)
        for file in (file for table in reproduced for file in run.glob(f"{table}*.arrows")):
            again = list((self.path / "again").glob(f"[0-9]*/{file.name}"))
            if [file.read_bytes()] != [each.read_bytes() for each in again]:
                self.find(f"{file.name} of the replay differs")

    def export(self, run, rows, to):
        """Each row of a table is in what is exported; what MIDAS takes can be imported again."""
        place = {"mid": "exported.mid.lz4", "compass": "exported.BIN"}.get(to, "exported")
        command = ["export", str(run), "--to", to, "--out", place, "--json"]
        code, output, errors = self.thalweg(*command, seconds=EXPORT_SECONDS)
        if code == 2 and "." in place:
            # Not everything fits this format.
            return
        if code != 0:
            self.find(f"`thalweg export --to {to}` failed", output + errors)
            return
        exported = {table["file"]: table["rows"] for table in json.loads(output)["tables"]}
        if any(rows[file] != count for file, count in exported.items()):
            self.find(f"{to} has other rows than the recording", f"{exported} of {rows}")
        if to == "mid" and any(exported.values()):
            code, output, errors = self.thalweg("import", place, "--runs", "imported", "--json")
            if code != 0:
                self.find("`thalweg import` failed", output + errors)
                return
            (imported,) = (self.path / "imported").glob("[0-9]*")
            again = self.verify(imported)
            if any(again.get(file) != rows[file] for file in exported if file in ("hits.arrows", "events.arrows")):
                self.find("what was imported has other rows", f"{again} of {exported}")


def draw_trouble(draw, seconds):
    """What happens to a run: its name, and what does it to the process."""
    after = draw.uniform(0.3, seconds)

    def signals(*sent):
        def send(process):
            for pause, each in sent:
                time.sleep(pause)
                process.send_signal(each)

        return send

    return draw.choice(
        [
            *[(None, None)] * 10,
            ("killed", signals((after, signal.SIGKILL))),
            ("killed", signals((after, signal.SIGTERM), (draw.uniform(0, 0.2), signal.SIGKILL))),
            ("stopped", signals((after, signal.SIGTERM))),
            # The second one ends the process at once.
            ("killed", signals((after, signal.SIGINT), (draw.uniform(0, 0.2), signal.SIGINT))),
            ("frozen", signals((after, signal.SIGSTOP), (draw.choice([0.2, 2.0]), signal.SIGCONT))),
            ("small disk", None),
            ("small disk", None),
        ]
    )


def one(asked, number, draw):
    """One case: its kind, and what was found."""
    case = draw.choice(KINDS)(draw)
    folder = Folder(asked.directory / f"{asked.seed}-{number}", asked.binary)
    if folder.configure(case, draw):
        trouble = folder.run(case, draw)
        if not folder.findings:
            folder.check(case, draw, trouble)
        folder.unmount()
        case.kind += f", {trouble}" if trouble else ""
    return case.kind, folder


def arguments(about, runs):
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--binary", default="target/release/thalweg", type=os.path.abspath)
    parser.add_argument("--runs", type=int, default=runs, help="how many cases")
    parser.add_argument("--seed", type=int, default=1, help="another seed draws other cases")
    parser.add_argument("--first", type=int, default=0, help="the number of the first of them, to repeat it alone")
    parser.add_argument("--at-once", type=int, default=os.cpu_count(), help="how many at a time")
    parser.add_argument(
        "--directory", type=Path, default=Path(tempfile.gettempdir()) / "thalweg-random", help="where cases with findings stay"
    )
    return parser.parse_args()


def run_all(asked, one_case):
    """Runs the cases; the exit code says whether anything was found."""

    def drawn(number):
        kind, folder = one_case(asked, number, random.Random(f"{asked.seed} {number}"))
        if not folder.findings:
            shutil.rmtree(folder.path)
        return number, kind, folder

    found, numbers = 0, range(asked.first, asked.first + asked.runs)
    with ThreadPoolExecutor(asked.at_once) as pool:
        for done, (number, kind, folder) in enumerate(pool.map(drawn, numbers), 1):
            for finding in folder.findings:
                found += 1
                print(f"{kind}: {finding}\n    see {folder.path}; --seed {asked.seed} --first {number} --runs 1", flush=True)
            if done % 50 == 0:
                print(f"{done:5} of {asked.runs} cases, {found} findings", flush=True)
    print(f"{asked.runs} random runs, {found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(run_all(arguments(__doc__, runs=300), one))
