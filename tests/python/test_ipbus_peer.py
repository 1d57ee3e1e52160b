"""The reference client of IPbus against the emulated board: over both transports, through the hub, and through it on a bad network.

    thalweg ipbus device ◄─ UDP, TCP ──────────────────── uhal (PyPI), as its users have it: connection file, address table, dispatch
                         ◄─ UDP ─ thalweg hub ◄─ TCP ────┘
"""

import json
import random
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
import uhal
from conftest import BINARY, ROOT

sys.path.insert(0, str(ROOT / "tests" / "peers"))
from ports import free_port

TABLE = """<node>
  <node id="WORD" address="0x10"/>
  <node id="PARTS" address="0x11"><node id="LOW" mask="0xFF"/><node id="HIGH" mask="0xFF00"/></node>
  <node id="TICKS" address="0x20" permission="r" parameters="emulate=counter"/>
  <node id="QUEUE" address="0x30" mode="non-incremental" parameters="emulate=fifo"/>
  <node id="BROKEN" address="0x40" parameters="emulate=error"/>
  <node id="MEMORY" address="0x100000" mode="incremental" size="0x400000"/>
</node>"""


@contextmanager
def serving(what, *arguments):
    """A command that serves until it is left; what it says then is in the list."""
    said = []
    process = subprocess.Popen(
        [BINARY, *arguments, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    try:
        while what not in process.stderr.readline():
            assert process.poll() is None
        yield said
    finally:
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        said.append(json.loads(out))


def connected(folder, uri):
    """The board behind a URI, as the reference client sees it."""
    (folder / "connections.xml").write_text(
        f'<connections><connection id="board" uri="{uri}" address_table="file://board.xml"/></connections>'
    )
    uhal.setLogLevelTo(uhal.LogLevel.ERROR)
    board = uhal.ConnectionManager(f"file://{folder}/connections.xml").getDevice("board")
    board.setTimeoutPeriod(60_000)
    return board


# On the bad network: of the datagrams between hub and board, each way.
BAD = ["--lost", "5", "--doubled", "2", "--delayed", "5", "--most-delay-us", "1000"]
WAYS = {"udp": [], "tcp": [], "hub": [], "hub on a bad network": BAD}


@pytest.fixture(scope="module", params=WAYS)
def board(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("peer")
    (folder / "board.xml").write_text(TABLE)
    place, table = f"127.0.0.1:{free_port()}", folder / "board.xml"
    with serving("ipbustcp", "ipbus", "device", "--udp", place, "--tcp", place, "--table", table, *WAYS[request.param]):
        if "hub" not in request.param:
            yield connected(folder, f"ipbus{request.param}-2.0://{place}")
            return
        hub = f"127.0.0.1:{free_port()}"
        with serving("chtcp", "hub", "--listen", hub, "--timeout-ms", "10000") as said:
            yield connected(folder, f"chtcp-2.0://{hub}?target={place}")
        client, target = said[0]["clients"][0], said[0]["targets"][0]
        assert client["asked"] == client["answered"] == target["answered"] > 0
        repeated = target["requests_repeated"] + target["replies_repeated"]
        assert repeated > 0 or not WAYS[request.param]


def test_words_and_parts_of_words(board):
    board.getNode("WORD").write(0xCAFEBABE)
    word = board.getNode("WORD").read()
    board.dispatch()
    assert word.value() == 0xCAFEBABE
    board.getNode("PARTS").write(0xABCD0000)
    board.getNode("PARTS.HIGH").write(0x12)
    board.getNode("PARTS.LOW").write(0x34)
    high, whole = board.getNode("PARTS.HIGH").read(), board.getNode("PARTS").read()
    board.dispatch()
    assert (high.value(), whole.value()) == (0x12, 0xABCD1234)


def test_changes_give_the_word_as_it_was(board):
    client = board.getClient()
    client.write(0x50, 0xF0)
    old, sum_old, now = client.rmw_bits(0x50, 0xFF, 0x0F), client.rmw_sum(0x50, 1), client.read(0x50)
    board.dispatch()
    assert (old.value(), sum_old.value(), now.value()) == (0xF0, 0xFF, 0x100)


def test_registers_that_behave(board):
    first, second = board.getNode("TICKS").read(), board.getNode("TICKS").read()
    board.dispatch()
    assert second.value() == first.value() + 1
    board.getNode("QUEUE").writeBlock([1, 2, 3])
    queue = board.getNode("QUEUE").readBlock(3)
    board.dispatch()
    assert list(queue) == [1, 2, 3]


def test_a_block_of_a_megabyte_comes_back(board):
    words = [random.getrandbits(32) for _ in range(1 << 18)]
    memory = board.getNode("MEMORY")
    memory.writeBlock(words)
    block = memory.readBlock(len(words))
    board.dispatch()
    assert list(block) == words


def test_ten_thousand_random_words_are_read_back(board):
    client = board.getClient()
    expected = {}
    for _ in range(100):
        for _ in range(100):
            address, word = 0x1000 + random.randrange(1 << 16), random.getrandbits(32)
            client.write(address, word)
            expected[address] = word
        board.dispatch()
    found = {address: client.read(address) for address in expected}
    board.dispatch()
    assert {address: word.value() for address, word in found.items()} == expected


def test_an_address_that_refuses_is_an_error_and_the_next_dispatch_is_not(board):
    board.getNode("BROKEN").read()
    with pytest.raises(uhal.exception):
        board.dispatch()
    word = board.getNode("WORD").read()
    board.dispatch()
    assert word.valid()


ADD = """
import sys, uhal
uhal.setLogLevelTo(uhal.LogLevel.ERROR)
board = uhal.ConnectionManager(f"file://{sys.argv[1]}/connections.xml").getDevice("board")
board.setTimeoutPeriod(60_000)
for _ in range(20):
    for _ in range(100):
        board.getClient().rmw_sum(0x10, 1)
    board.dispatch()
"""


def test_eight_clients_add_up_exactly_through_the_hub_on_a_bad_network(tmp_path):
    (tmp_path / "board.xml").write_text(TABLE)
    place, hub = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    with (
        serving("ipbusudp", "ipbus", "device", "--udp", place, *BAD),
        serving("chtcp", "hub", "--listen", hub, "--timeout-ms", "10000"),
    ):
        board = connected(tmp_path, f"chtcp-2.0://{hub}?target={place}")
        clients = [subprocess.Popen([sys.executable, "-c", ADD, tmp_path]) for _ in range(8)]
        assert [client.wait(timeout=300) for client in clients] == [0] * 8
        there = board.getNode("WORD").read()
        board.dispatch()
        assert there.value() == 8 * 20 * 100


def test_a_board_that_is_not_there_is_an_error_of_the_hub_and_harms_no_other(tmp_path):
    (tmp_path / "board.xml").write_text(TABLE)
    place, hub = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    with (
        serving("ipbusudp", "ipbus", "device", "--udp", place),
        serving("chtcp", "hub", "--listen", hub, "--timeout-ms", "200") as said,
    ):
        absent = connected(tmp_path, f"chtcp-2.0://{hub}?target=127.0.0.1:{free_port()}")
        present = connected(tmp_path, f"chtcp-2.0://{hub}?target={place}")
        absent.getNode("WORD").read()
        with pytest.raises(uhal.exception):
            absent.dispatch()
        word = present.getNode("WORD").read()
        present.dispatch()
        assert word.valid()
    # 3: the target has answered no status request.
    assert [target["refused"] for target in said[0]["targets"] if target["refused"]] == [{"3": 1}]
