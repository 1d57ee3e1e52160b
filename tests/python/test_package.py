"""The Python package `thalweg`: registers of the emulated board, numpy in and out, and scripts of uHAL with one changed import.

    thalweg ipbus device ◄─ UDP, TCP, hub ─ thalweg.ipbus, thalweg.uhal
                         ◄─ UDP ─────────── uhal (PyPI), the same script
"""

import asyncio
import threading

import numpy as np
import pytest
import uhal as original
from test_ipbus_peer import TABLE, free_port, serving
from thalweg import ipbus
from thalweg import uhal as ours


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A board that is served, and the folder with its table and its connection file."""
    folder, port = tmp_path_factory.mktemp("package"), free_port()
    (folder / "board.xml").write_text(TABLE)
    uri = f"ipbusudp-2.0://127.0.0.1:{port}?reliable=off"
    # The original reads no keys of ours.
    for name, target in [("ours.xml", uri), ("original.xml", uri.partition("?")[0])]:
        (folder / name).write_text(
            f'<connections><connection id="board" uri="{target}" address_table="file://board.xml"/></connections>'
        )
    where = f"127.0.0.1:{port}"
    with serving("ipbustcp", "ipbus", "device", "--udp", where, "--tcp", where, "--table", folder / "board.xml"):
        yield folder, where


def connected(place, transport="udp"):
    folder, where = place
    keys = "?reliable=off" if transport == "udp" else ""
    return ipbus.connect(f"ipbus{transport}-2.0://{where}{keys}", table=folder / "board.xml")


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_words_and_blocks_come_back_as_they_were_written(place, transport):
    with connected(place, transport) as board:
        board.write("PARTS", 0xABCD)
        assert (board.read("PARTS.LOW"), board.read("PARTS.HIGH"), board.read(0x11)) == (0xCD, 0xAB, 0xABCD)
        data = np.random.default_rng(7).integers(0, 1 << 32, 100_000, dtype=np.uint32)
        board.write_block("MEMORY", data, offset=5)
        assert np.array_equal(board.read_block("MEMORY", 100_000, offset=5), data)
        room = np.zeros(1000, dtype=np.uint32)
        assert board.read_block("MEMORY", offset=5, out=room) is room and np.array_equal(room, data[:1000])
        board.write_block("QUEUE", [1, 2, 3])
        assert board.read_block("QUEUE", 3).tolist() == [1, 2, 3]


def test_a_queue_is_one_dispatch_and_its_values_come_with_it(place):
    with connected(place) as board:
        board.write("WORD", 5)
        with board.queue() as queue:
            before, ticks = queue.add("WORD", -2), queue.read("TICKS")
            bits = queue.change_bits("WORD", clear=0x1, set=0x100)
            block = queue.read_block("MEMORY", 8)
            with pytest.raises(RuntimeError, match="dispatch"):
                _ = before.value
        assert (before.value, bits.value, board.read("WORD"), block.size) == (5, 3, 0x102, 8)
        assert int(ticks) < board.read("TICKS")
        queue = board.queue()
        with pytest.raises(ZeroDivisionError), queue:
            queue.write("WORD", 1)
            _ = 1 / 0
        assert board.read("WORD") == 0x102, "what is left by an exception is not sent"


def test_what_is_not_allowed_is_refused_before_it_is_sent(place):
    with connected(place) as board:
        for wrong, error in [
            (lambda: board.read("WORT"), KeyError),
            (lambda: board.write("TICKS", 1), ValueError),
            (lambda: board.write("PARTS.LOW", 256), ValueError),
            (lambda: board.write("WORD", -1), OverflowError),
            (lambda: board.write("WORD", 1 << 32), OverflowError),
            (lambda: board.write_block("MEMORY", [0.5]), TypeError),
            (lambda: board.write_block("MEMORY", [-1]), ValueError),
            (lambda: board.write_block("MEMORY", [[1]]), TypeError),
            (lambda: board.read_block("MEMORY", out=np.zeros(4, dtype=np.int64)), TypeError),
            (lambda: board.read_block(0x100000), TypeError),
            (lambda: board.read_block("MEMORY", 2, offset=0x400000), ValueError),
        ]:
            with pytest.raises(error):
                wrong()
    with pytest.raises(ValueError, match="closed"):
        board.read("WORD")


def test_an_error_of_the_target_says_what_may_have_happened(place):
    with connected(place) as board, pytest.raises(ipbus.Error, match="BROKEN") as refused:
        board.read("BROKEN")
    assert refused.value.may_have_happened is False
    silent = f"ipbusudp-2.0://127.0.0.1:{free_port()}?reliable=off&timeout_ms=100"
    with ipbus.connect(silent) as board, pytest.raises(ipbus.Error) as unanswered:
        board.write(0x10, 1)
    assert unanswered.value.may_have_happened is True
    with pytest.raises(OSError, match="board.xml"):
        ipbus.connect(silent, table="/nowhere/board.xml")


def test_boards_of_a_connection_file_and_their_nodes_are_found(place):
    folder, _ = place
    file = f"file://{folder}/ours.xml"
    assert list(ipbus.connections(file)) == ["board"]
    with pytest.raises(KeyError, match="it has board"):
        ipbus.connect("other", connection_file=file)
    with ipbus.connect("board", connection_file=file) as board:
        parts = board.nodes("PARTS.*")
        assert [(node.name, node.mask) for node in parts] == [("PARTS.LOW", 0xFF), ("PARTS.HIGH", 0xFF00)]
        assert [node.name for node in board.nodes(search="^TI")] == ["TICKS"]
        assert len(list(board)) == 8


def test_threads_share_a_board(place):
    with connected(place) as board:
        board.write("WORD", 0)
        work = lambda: [board.add("WORD", 1) for _ in range(200)]  # noqa: E731
        threads = [threading.Thread(target=work) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert board.read("WORD") == 800


def test_tasks_of_asyncio_go_on_while_others_wait(place):
    folder, where = place
    silent = f"ipbusudp-2.0://127.0.0.1:{free_port()}?reliable=off&timeout_ms=300"

    async def work():
        uri = f"ipbustcp-2.0://{where}"
        async with await ipbus.connect_async(uri, table=folder / "board.xml") as board:
            waits = asyncio.create_task((await ipbus.connect_async(silent)).read(0x10))
            await board.write("WORD", 1)
            async with board.queue() as queue:
                value, block = queue.add("WORD", 1), queue.read_block("MEMORY", 3)
            assert (value.value, await board.read("WORD"), block.size) == (1, 2, 3)
            with pytest.raises(ipbus.Error, match="no answer|refused"):
                await waits

    asyncio.run(work())


@pytest.mark.parametrize("uhal", [ours, original], ids=["ours", "original"])
def test_a_script_of_uhal_does_the_same_with_both(place, uhal):
    folder, _ = place
    uhal.setLogLevelTo(uhal.LogLevel.ERROR)
    file = "ours.xml" if uhal is ours else "original.xml"
    manager = uhal.ConnectionManager(f"file://{folder}/{file}")
    assert list(manager.getDevices()) == ["board"]
    hw = manager.getDevice("board")
    hw.getNode("WORD").write(0x123)
    word, low = hw.getNode("WORD").read(), hw.getNode("PARTS").getNode("LOW")
    assert not word.valid()
    low.write(0x55)
    read = low.read()
    hw.dispatch()
    assert word.valid() and word == 0x123 and word.value() == 0x123 and read + 1 == 0x56 and int(read) == 0x55
    hw.getNode("MEMORY").writeBlock(list(range(500)))
    block = hw.getNode("MEMORY").readBlock(500)
    hw.dispatch()
    assert list(block) == list(range(500)) and block[7] == 7 and len(block) == 500 and block.value()[3] == 3
    client = hw.getClient()
    first, second = client.read(0x10), client.rmw_bits(0x10, 0xFFFFFFFF, 0)
    hw.dispatch()
    assert first == second
    assert sorted(hw.getNode("PARTS").getNodes()) == ["HIGH", "LOW"]
    assert (low.getAddress(), low.getMask(), low.getId(), low.getPath()) == (0x11, 0xFF, "LOW", "PARTS.LOW")
    with pytest.raises(Exception, match="BROKEN|0x00000040|error"):
        hw.getNode("BROKEN").read()
        hw.dispatch()
