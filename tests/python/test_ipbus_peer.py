"""The reference client of IPbus against the emulated board, over both transports.

    thalweg ipbus device ◄─ UDP, TCP ─ uhal (PyPI), as its users have it: connection file, address table, dispatch
"""

import random
import signal
import socket
import subprocess

import pytest
import uhal
from conftest import BINARY

TABLE = """<node>
  <node id="WORD" address="0x10"/>
  <node id="PARTS" address="0x11"><node id="LOW" mask="0xFF"/><node id="HIGH" mask="0xFF00"/></node>
  <node id="TICKS" address="0x20" permission="r" parameters="emulate=counter"/>
  <node id="QUEUE" address="0x30" mode="non-incremental" parameters="emulate=fifo"/>
  <node id="BROKEN" address="0x40" parameters="emulate=error"/>
  <node id="MEMORY" address="0x100000" mode="incremental" size="0x400000"/>
</node>"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module", params=["ipbusudp-2.0", "ipbustcp-2.0"])
def board(request, tmp_path_factory):
    """The board as the reference client sees it."""
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "board.xml").write_text(TABLE)
    place = f"127.0.0.1:{free_port()}"
    (folder / "connections.xml").write_text(
        f'<connections><connection id="board" uri="{request.param}://{place}" '
        'address_table="file://board.xml"/></connections>'
    )
    device = subprocess.Popen(
        [BINARY, "ipbus", "device", "--udp", place, "--tcp", place, "--table", folder / "board.xml"],
        stderr=subprocess.PIPE, text=True,
    )
    try:
        while "ipbustcp" not in device.stderr.readline():
            assert device.poll() is None
        uhal.setLogLevelTo(uhal.LogLevel.ERROR)
        manager = uhal.ConnectionManager(f"file://{folder}/connections.xml")
        board = manager.getDevice("board")
        board.setTimeoutPeriod(60_000)
        yield board
    finally:
        device.send_signal(signal.SIGINT)
        assert device.wait(timeout=60) == 0


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
