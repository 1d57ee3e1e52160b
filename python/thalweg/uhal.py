"""Scripts written for uHAL, with one changed import: ``from thalweg import uhal``.

What is here behaves as there: connection files, nodes, queued reads and writes, ``dispatch``, values that come with it. What is not: the
classes of an address table (``class=…``) and IPbus 1.3.
"""

from __future__ import annotations

import operator
import re
from typing import Any, Iterable

import numpy as np

from . import ipbus

# Names as the original has them; nothing here writes a log.
LogLevel = type("LogLevel", (), {name: name for name in ("FATAL", "ERROR", "WARNING", "NOTICE", "INFO", "DEBUG")})
Exception = exception = ipbus.Error


def setLogLevelTo(_level: Any) -> None:
    """Does nothing: errors are raised, and nothing is written."""


def disableLogging() -> None:
    """Does nothing, as `setLogLevelTo`."""


class _ValWord:
    """A word that comes with `dispatch`, and counts as a number then."""

    __slots__ = ("_word",)

    def __init__(self) -> None:
        self._word: int | None = None

    def valid(self) -> bool:
        return self._word is not None

    def value(self) -> int:
        if self._word is None:
            raise exception("this value has not come: dispatch first")
        return self._word

    def __int__(self) -> int:
        return self.value()

    __index__ = __int__

    def __str__(self) -> str:
        return str(self.value())

    def __repr__(self) -> str:
        return f"<ValWord {self._word:#x}>" if self._word is not None else "<ValWord that has not come>"

    def __hash__(self) -> int:
        return hash(self.value())


def _behaves_as_its_number(name: str, operation: Any) -> None:
    def one(self: _ValWord, other: Any) -> Any:
        return operation(self.value(), other.value() if isinstance(other, _ValWord) else other)

    def turned(self: _ValWord, other: Any) -> Any:
        return operation(other, self.value())

    setattr(_ValWord, f"__{name}__", one)
    if name not in _COMPARISONS:
        setattr(_ValWord, f"__r{name}__", turned)


_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
for _name in (*_COMPARISONS, "add", "sub", "mul", "truediv", "floordiv", "mod", "lshift", "rshift", "xor"):
    _behaves_as_its_number(_name, getattr(operator, _name))
_behaves_as_its_number("and", operator.and_)
_behaves_as_its_number("or", operator.or_)


class _ValVector:
    """Words that come with `dispatch`; ``numpy.asarray`` of it copies nothing."""

    def __init__(self, words: ipbus.Words, last: _ValWord) -> None:
        self._words, self._last = words, last

    def valid(self) -> bool:
        return self._last.valid()

    def value(self) -> list[int]:
        words: list[int] = self._come().tolist()
        return words

    def size(self) -> int:
        return len(self._come())

    def _come(self) -> ipbus.Words:
        self._last.value()
        return self._words

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self._come(), dtype=dtype, copy=bool(copy)) if copy or dtype else self._come()

    def __len__(self) -> int:
        return len(self._come())

    def __getitem__(self, place: Any) -> Any:
        found = self._come()[place]
        return found.tolist() if isinstance(place, slice) else int(found)

    def __iter__(self) -> Any:
        return iter(self.value())


class ClientInterface:
    """The target by addresses."""

    def __init__(self, board: ipbus.Board, id: str) -> None:
        self._board, self._id, self._queue = board, id, board.queue()

    def id(self) -> str:
        return self._id

    def uri(self) -> str:
        return self._board.uri

    def _word(self, *job: Any) -> _ValWord:
        word = _ValWord()
        self._queue._append(job, word)
        return word

    def _words(self, register: ipbus.Register, words: int, offset: int = 0) -> _ValVector:
        room = np.empty(words, dtype=np.uint32)
        return _ValVector(room, self._word("read_block", register, offset, room))

    def read(self, address: int, mask: int = 0xFFFF_FFFF) -> _ValWord:
        if mask != 0xFFFF_FFFF:
            raise NotImplementedError("a part of a word is read by its node")
        return self._word("read", address)

    def write(self, address: int, value: int) -> None:
        self._queue.write(address, value)

    def readBlock(self, address: int, size: int) -> _ValVector:
        return self._words(address, size)

    def writeBlock(self, address: int, values: Iterable[int]) -> None:
        self._queue.write_block(address, np.asarray(list(values), dtype=np.int64))

    def rmw_bits(self, address: int, and_term: int, or_term: int) -> _ValWord:
        return self._word("change_bits", address, and_term, or_term)

    def rmw_sum(self, address: int, addend: int) -> _ValWord:
        return self._word("add", address, addend & 0xFFFF_FFFF)

    def dispatch(self) -> None:
        self._queue.dispatch()


class Node:
    """A node of the address table."""

    def __init__(self, client: ClientInterface, nodes: dict[str, ipbus.Node], name: str) -> None:
        self._client, self._nodes, self._name = client, nodes, name

    def _node(self) -> ipbus.Node:
        return self._nodes[self._name]

    def getNode(self, name: str) -> Node:
        full = f"{self._name}.{name}" if self._name else name
        if full not in self._nodes:
            raise KeyError(f"there is no node `{full}`")
        return Node(self._client, self._nodes, full)

    def getNodes(self, expression: str | None = None) -> list[str]:
        below = f"{self._name}." if self._name else ""
        names = [name[len(below) :] for name in self._nodes if name.startswith(below) and name != self._name]
        return [name for name in names if expression is None or re.fullmatch(expression, name)]

    def getId(self) -> str:
        return self._name.rsplit(".", 1)[-1]

    def getPath(self) -> str:
        return self._name

    def getAddress(self) -> int:
        return self._node().address

    def getMask(self) -> int:
        return self._node().mask

    def getSize(self) -> int:
        return self._node().size or 0

    def getTags(self) -> str:
        return self._node().tags

    def getDescription(self) -> str:
        return self._node().description

    def getParameters(self) -> dict[str, str]:
        return self._node().parameters

    def getClient(self) -> ClientInterface:
        return self._client

    def read(self) -> _ValWord:
        return self._client._word("read", self._name)

    def write(self, value: int) -> None:
        self._client._queue.write(self._name, value)

    def readBlock(self, size: int) -> _ValVector:
        return self._client._words(self._name, size)

    def readBlockOffset(self, size: int, offset: int) -> _ValVector:
        return self._client._words(self._name, size, offset)

    def writeBlock(self, values: Iterable[int]) -> None:
        self._client._queue.write_block(self._name, np.asarray(list(values), dtype=np.int64))

    def writeBlockOffset(self, values: Iterable[int], offset: int) -> None:
        self._client._queue.write_block(self._name, np.asarray(list(values), dtype=np.int64), offset=offset)


class HwInterface(Node):
    """A target with its address table."""

    def __init__(self, board: ipbus.Board, id: str) -> None:
        nodes = {node.name: node for node in board.nodes()}
        super().__init__(ClientInterface(board, id), nodes, "")

    def id(self) -> str:
        return self._client.id()

    def uri(self) -> str:
        return self._client.uri()

    def dispatch(self) -> None:
        self._client.dispatch()


class ConnectionManager:
    """The targets of a connection file."""

    def __init__(self, connection_file: str) -> None:
        self._file, self._known = connection_file, ipbus.connections(connection_file)

    def getDevices(self, expression: str = ".*") -> list[str]:
        return [id for id in self._known if re.fullmatch(expression, id)]

    def getDevice(self, id: str) -> HwInterface:
        return HwInterface(ipbus.connect(id, connection_file=self._file), id)


def getDevice(id: str, uri: str, address_table: str) -> HwInterface:
    """A target by its URI, with the file of its address table (``file://…`` or a path)."""
    return HwInterface(ipbus.connect(uri, table=address_table.removeprefix("file://")), id)
