"""Registers of boards that speak IPbus 2.0, by name or address.

    with ipbus.connect("ipbusudp-2.0://192.168.0.10:50001", table="crate.xml") as board:
        board.write("CTRL.MODE", 3)
        spectrum = board.read_block("MEMORY", 1024)      # numpy, uint32
        with board.queue() as queue:                     # one dispatch, however many
            rate, temperature = queue.read("RATE"), queue.read("SENSORS.TEMPERATURE")
        print(rate.value, temperature.value)

Blocks land in numpy arrays; no word of them is a Python object. Other threads go on while a dispatch waits. What the address table forbids
is refused before anything is sent. An error of a target is an :class:`Error`; it says whether something *may have happened* all the same.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _thalweg
from ._thalweg import IpbusError as Error

__all__ = [
    "AsyncBoard",
    "AsyncQueue",
    "Board",
    "Error",
    "Node",
    "Queue",
    "Value",
    "connect",
    "connect_async",
    "connections",
]

Register = str | int
Words = NDArray[np.uint32]


@dataclass(frozen=True)
class Node:
    """A node of an address table."""

    name: str
    address: int
    mask: int
    mode: str
    size: int | None
    reads: bool
    writes: bool
    tags: str
    description: str
    parameters: dict[str, str]


class Value:
    """A word that comes with the dispatch of its queue."""

    __slots__ = ("_word",)

    def __init__(self) -> None:
        self._word: int | None = None

    @property
    def is_valid(self) -> bool:
        """Whether it has come."""
        return self._word is not None

    @property
    def value(self) -> int:
        """The word. Raises RuntimeError before the dispatch, and after one that failed."""
        if self._word is None:
            raise RuntimeError("this value has not come: dispatch its queue first")
        return self._word

    def __int__(self) -> int:
        return self.value

    __index__ = __int__

    def __repr__(self) -> str:
        return f"<Value {self._word:#x}>" if self._word is not None else "<Value that has not come>"


def _words(data: ArrayLike) -> Words:
    """Words as they are sent: what is no word is refused, and not cut."""
    given = np.asarray(data)
    if given.dtype == np.uint32 and given.ndim == 1 and given.flags.c_contiguous:
        return given
    if given.ndim != 1 or (given.size > 0 and given.dtype.kind not in "iu"):
        raise TypeError(f"a block is one row of integers, and this is {given.ndim} rows deep of {given.dtype}")
    if given.size > 0 and (given.min() < 0 or given.max() > 0xFFFF_FFFF):
        raise ValueError("a word is 0 to 4294967295")
    return np.ascontiguousarray(given, dtype=np.uint32)


def _room(words: int | None, out: Words | None) -> Words:
    if out is None:
        if words is None:
            raise TypeError("say how many words, or give an array as `out`")
        return np.empty(words, dtype=np.uint32)
    if out.dtype != np.uint32 or out.ndim != 1 or not out.flags.c_contiguous or not out.flags.writeable:
        raise TypeError("`out` is one row of uint32 without gaps that can be written")
    if words is not None and words != out.size:
        raise ValueError(f"`out` has room for {out.size} words, and {words} were asked for")
    return out


class Queue:
    """Operations that are done together, in their order. As a context manager it dispatches at the end, unless an exception leaves it."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._jobs: list[tuple[Any, ...]] = []
        self._values: list[Any] = []

    def _add(self, *job: Any) -> Value:
        value = Value()
        self._append(job, value)
        return value

    def _append(self, job: tuple[Any, ...], value: Any) -> None:
        self._jobs.append(job)
        self._values.append(value)

    def read(self, register: Register) -> Value:
        """Reads a register."""
        return self._add("read", register)

    def write(self, register: Register, value: int) -> None:
        """Writes a register; a masked register leaves the other bits of its word unchanged."""
        self._add("write", register, value)

    def change_bits(self, register: Register, *, clear: int = 0, set: int = 0) -> Value:
        """Clears and sets bits in one step of the target; the value is the old one."""
        return self._add("change_bits", register, ~clear & 0xFFFF_FFFF, set)

    def add(self, register: Register, addend: int) -> Value:
        """Adds, modulo 2³², in one step of the target; the value is the old one."""
        return self._add("add", register, addend & 0xFFFF_FFFF)

    def read_block(
        self, register: Register, words: int | None = None, *, offset: int = 0, out: Words | None = None
    ) -> Words:
        """Reads a block, or a port again and again, into the array that is returned: it is filled by the dispatch."""
        room = _room(words, out)
        self._add("read_block", register, offset, room)
        return room

    def write_block(self, register: Register, data: ArrayLike, *, offset: int = 0) -> None:
        """Writes a block, or a port again and again."""
        self._add("write_block", register, offset, _words(data))

    def dispatch(self) -> None:
        """Has everything done, and empties the queue."""
        jobs, values = self._jobs, self._values
        self._jobs, self._values = [], []
        if not jobs:
            return
        for value, word in zip(values, self._board._inner().perform(jobs)):
            value._word = word

    def __len__(self) -> int:
        return len(self._jobs)

    def __enter__(self) -> Queue:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.dispatch()


class Board:
    """A target with the names of its address table. Made by :func:`connect`."""

    def __init__(self, inner: _thalweg.Board) -> None:
        self._board: _thalweg.Board | None = inner
        self._uri = inner.uri

    def _inner(self) -> _thalweg.Board:
        if self._board is None:
            raise ValueError(f"{self._uri} is closed")
        return self._board

    @property
    def uri(self) -> str:
        """Where the target is."""
        return self._uri

    def close(self) -> None:
        """Lets go of the target."""
        self._board = None

    def __enter__(self) -> Board:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Board {self._uri}{' (closed)' if self._board is None else ''}>"

    def queue(self) -> Queue:
        """A queue of operations for one dispatch."""
        return Queue(self)

    def read(self, register: Register) -> int:
        """The value of a register."""
        return self._inner().perform([("read", register)])[0]

    def write(self, register: Register, value: int) -> None:
        """Writes a register; a masked register leaves the other bits of its word unchanged."""
        self._inner().perform([("write", register, value)])

    def change_bits(self, register: Register, *, clear: int = 0, set: int = 0) -> int:
        """Clears and sets bits in one step of the target; gives the old value."""
        return self._inner().perform([("change_bits", register, ~clear & 0xFFFF_FFFF, set)])[0]

    def add(self, register: Register, addend: int) -> int:
        """Adds, modulo 2³², in one step of the target; gives the old value."""
        return self._inner().perform([("add", register, addend & 0xFFFF_FFFF)])[0]

    def read_block(
        self, register: Register, words: int | None = None, *, offset: int = 0, out: Words | None = None
    ) -> Words:
        """Reads a block, or a port again and again: all of it without `words`, where the table says how long it is."""
        if words is None and out is None:
            words = self._size(register)
        room = _room(words, out)
        self._inner().perform([("read_block", register, offset, room)])
        return room

    def write_block(self, register: Register, data: ArrayLike, *, offset: int = 0) -> None:
        """Writes a block, or a port again and again."""
        self._inner().perform([("write_block", register, offset, _words(data))])

    def status(self) -> dict[str, int]:
        """What the target says of its buffers and its next packet; not through a hub."""
        return self._inner().status()

    def nodes(self, pattern: str | None = None, *, search: str | None = None) -> list[Node]:
        """The nodes of the table: all, those whose full name a pattern such as ``CTRL.*`` fits, or in which an expression is found."""
        return [Node(**node) for node in self._inner().nodes(pattern, search)]

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes())

    def _size(self, register: Register) -> int:
        found = [node for node in self.nodes() if node.name == register]
        if not found or found[0].size is None:
            raise TypeError(f"the table does not say how many words {register!r} has: say `words`")
        return found[0].size


class AsyncQueue(Queue):
    """A queue that is dispatched at the end of ``async with``."""

    async def __aenter__(self) -> AsyncQueue:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await asyncio.to_thread(self.dispatch)


class AsyncBoard:
    """A target for asyncio: each call waits in a thread, and other tasks go on. Made by :func:`connect_async`."""

    def __init__(self, board: Board) -> None:
        self._board = board

    @property
    def uri(self) -> str:
        """Where the target is."""
        return self._board.uri

    async def __aenter__(self) -> AsyncBoard:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._board.close()

    def queue(self) -> AsyncQueue:
        """A queue of operations for one dispatch."""
        return AsyncQueue(self._board)

    async def read(self, register: Register) -> int:
        """See :meth:`Board.read`."""
        return await asyncio.to_thread(self._board.read, register)

    async def write(self, register: Register, value: int) -> None:
        """See :meth:`Board.write`."""
        await asyncio.to_thread(self._board.write, register, value)

    async def change_bits(self, register: Register, *, clear: int = 0, set: int = 0) -> int:
        """See :meth:`Board.change_bits`."""
        return await asyncio.to_thread(self._board.change_bits, register, clear=clear, set=set)

    async def add(self, register: Register, addend: int) -> int:
        """See :meth:`Board.add`."""
        return await asyncio.to_thread(self._board.add, register, addend)

    async def read_block(
        self, register: Register, words: int | None = None, *, offset: int = 0, out: Words | None = None
    ) -> Words:
        """See :meth:`Board.read_block`."""
        return await asyncio.to_thread(self._board.read_block, register, words, offset=offset, out=out)

    async def write_block(self, register: Register, data: ArrayLike, *, offset: int = 0) -> None:
        """See :meth:`Board.write_block`."""
        await asyncio.to_thread(self._board.write_block, register, data, offset=offset)

    async def status(self) -> dict[str, int]:
        """See :meth:`Board.status`."""
        return await asyncio.to_thread(self._board.status)

    def nodes(self, pattern: str | None = None, *, search: str | None = None) -> list[Node]:
        """See :meth:`Board.nodes`: nothing is asked of the target."""
        return self._board.nodes(pattern, search=search)


def connect(
    target: str, *, table: str | os.PathLike[str] | None = None, connection_file: str | None = None
) -> Board:
    """A target: a URI with the file of its address table, or an id of a connection file.

    URIs are ``ipbusudp-2.0://HOST:PORT``, ``ipbustcp-2.0://HOST:PORT`` and ``chtcp-2.0://HUB:PORT?target=HOST:PORT``, with keys such as
    ``?reliable=off`` and ``timeout_ms=100``. Raises OSError when the table cannot be read or nobody is there, KeyError for an unknown id.
    """
    if connection_file is not None:
        return Board(_thalweg.connect(connection_file, target))
    return Board(_thalweg.Board(target, table))


async def connect_async(
    target: str, *, table: str | os.PathLike[str] | None = None, connection_file: str | None = None
) -> AsyncBoard:
    """The same for asyncio, as in ``async with await ipbus.connect_async(…) as board:``."""
    return AsyncBoard(await asyncio.to_thread(connect, target, table=table, connection_file=connection_file))


def connections(connection_file: str) -> dict[str, str]:
    """The targets of a connection file, or of a list such as ``file://a.xml;file://b.xml``: id and URI."""
    return dict(_thalweg.connections(connection_file))
