"""Carries files between two exchanges that do not reach each other, by letters: `Postman` writes and takes them.

    the hub, at the server                       a site
    write(site, "north/") -> letter  ->          take(letter)      puts what is new of all other places
    take(letter)                     <-          write() -> letter has what is new of "north/"

A side brings the files of its own places, and of no others: what a letter has of these is refused. A letter says which
files of the other side's are here, so that the next one has those that are not; so nothing is lost where a letter is.
Whoever carries letters sees signed and sealed messages, can withhold them, and change nothing.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from fhe_auc.base.errors import FheAucError, InputError, MessageError
from fhe_auc.base.logs import RoleLog, one_line
from fhe_auc.base.serialise import frame, unframe
from fhe_auc.exchange.exchange import Exchange, Version, file_of, place_of

_MAGIC = b"fhepost"
_PART = r"[A-Za-z0-9=_~-](?:[A-Za-z0-9=_~. -]{0,253}[A-Za-z0-9=_~-])?"  # of a name, on any file system
_NAME = re.compile(f"{_PART}(?:/{_PART}){{1,2}}")  # PLACE/request, PLACE/members/1.json, PLACE/SESSION/round-1.message
_MOST_NAMES, _MOST_BYTES = 20_000, 2**30  # of files that one side may have in the other's exchange
_LETTER = 2**25  # bytes of files in a letter, but for one that is longer
_SHORTEST = 0.5  # seconds between letters
_LOOK = 0.5  # seconds between looks for an answer
_DIGEST = 16  # bytes; whoever makes two files of one digest keeps one from being carried

IsOurs: TypeAlias = Callable[[str], bool]
"""Whether files of a place, such as "north/", are for this side to bring."""


class Letter(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What one side sends: whose it is; digests of the other's files that are here; own files, and those now gone."""

    name: str
    known: dict[str, bytes]
    files: dict[str, bytes]
    gone: list[str]


def only(own: str) -> IsOurs:
    """Return the rule by which a site brings its place, in any case of letters, as file systems may ignore it."""
    return lambda place: place.casefold() == own.casefold()


def but(theirs: str) -> IsOurs:
    """Return the rule by which the other side of a site's brings all other places."""
    return lambda place: not only(theirs)(place)


class Postman:
    """Reads and writes letters for an exchange; `name` is whose that is."""

    def __init__(self, exchange: Exchange, name: str = "") -> None:
        self.exchange, self.name = exchange, name
        self.files: dict[str, bytes] = {}  # digests
        self._sizes: dict[str, int] = {}
        self._versions: dict[str, Version] = {}

    def look(self) -> None:
        """Read what has changed in the exchange; raise `OSError` or `InputError` where it is away."""
        before, self._versions = self._versions, dict(self._listed("", 3))
        known, self.files = self.files, {}
        sizes, self._sizes = self._sizes, {}
        for name, version in self._versions.items():
            if name in known and version == before.get(name):
                self.files[name], self._sizes[name] = known[name], sizes[name]
            else:
                with suppress(OSError, InputError):  # it has gone meanwhile, is closed to us, no file, or too long
                    self._note(name, self.exchange.read(name))

    def _listed(self, place: str, depth: int) -> Iterator[tuple[str, Version]]:
        for name, version in self.exchange.list(place).items():
            if name.endswith("/") and depth > 1:
                with suppress(FileNotFoundError, NotADirectoryError, InputError):  # others may have filled it
                    yield from self._listed(f"{place}{name}", depth - 1)
            elif _NAME.fullmatch(f"{place}{name}"):
                yield f"{place}{name}", version

    def _note(self, name: str, data: bytes) -> None:
        self.files[name], self._sizes[name] = hashlib.sha256(data).digest()[:_DIGEST], len(data)

    def write(self, known: Mapping[str, bytes] | None, ours: IsOurs, to: str = "") -> tuple[bytes, int]:
        """Return a letter to a side that has these files of ours, and how much is in it; None: we do not know yet.

        `to` is the site that it is for, if one: it has no use for what others say to the server, or are sealed.
        """
        files: dict[str, bytes] = {}
        gone: list[str] = []
        if known is not None:
            gone = [name for name in known if name not in self._versions and ours(_place(name))]
            length = 0
            for name, digest in self.files.items():
                if ours(_place(name)) and known.get(name) != digest and not (to and _is_for_others(name, to)):
                    length += self._sizes[name]
                    if files and length > _LETTER:
                        break
                    with suppress(OSError, InputError):
                        files[name] = self.exchange.read(name)
        here = {name: digest for name, digest in self.files.items() if not ours(_place(name))}
        return frame(_MAGIC, Letter(self.name, here, files, gone)), len(files) + len(gone)

    def open(self, data: bytes) -> Letter:
        """Return a letter; raise `DeserialisationError` where it is none."""
        letter = unframe(_MAGIC, data, Letter, "letter between exchanges")
        for name in (*letter.known, *letter.files, *letter.gone):
            if not _NAME.fullmatch(name):
                raise MessageError(f"{one_line(name[:80])!r} is no name of a file in an exchange", field="payload")
        return letter

    def take(self, letter: Letter, ours: IsOurs) -> int:
        """Put what a letter brings into the exchange, and return how much that was.

        Nothing is put where it has files of our places, or too many: `MessageError`. Raises `OSError`, or `InputError`,
        where they cannot be written.
        """
        for name in (*letter.files, *letter.gone):
            if ours(_place(name)):
                raise MessageError(f"{name!r} is not for the other side to bring", field="payload")
        sizes = {name: size for name, size in self._sizes.items() if not ours(_place(name))}
        sizes |= {name: len(file) for name, file in letter.files.items()}
        if len(sizes) > _MOST_NAMES or sum(sizes.values()) > _MOST_BYTES:
            raise MessageError(f"more than {_MOST_NAMES:,} files, or {_MOST_BYTES:,} bytes of them", field="length")
        for name, file in letter.files.items():
            self.exchange.put(name, file)
            self._note(name, file)
        for name in letter.gone:
            if name in self.files:
                self.exchange.remove(name)
        return len(letter.files) + len(letter.gone)


def answer(exchange: Exchange, name: str, letter: bytes, *, wait: float = 0.0) -> bytes:
    """Return the letter of a site in answer to the hub's; errors as there.

    Where the hub's has brought something, the site's role may answer that: it is given `wait` seconds.
    """
    postman, ours = Postman(exchange, name), only(place_of(name))
    postman.look()
    opened = postman.open(letter)
    end = time.monotonic() + (wait if postman.take(opened, ours) else 0.0)
    written, carried = postman.write(opened.known, ours)
    while not carried and time.monotonic() < end:
        time.sleep(_LOOK)
        postman.look()
        written, carried = postman.write(opened.known, ours)
    return written


@dataclass
class _Node:
    """A node as the hub knows it: whose it is, what it has of others' files, and when it is written to."""

    name: str = ""
    place: str = ""
    known: dict[str, bytes] | None = None
    told: dict[str, bytes] = field(default_factory=dict)  # what lay here when it was last written to
    due: float = 0.0  # monotonic time
    pause: float = 0.0  # seconds
    waits: bool = False  # for an answer
    wrong: str = ""  # what was, last time


class Hub:
    """The server's side: writes to nodes where there is something to carry; `names` says which site is which node.

    Where that is empty, a node is the site that it first says, if no other has said so. Where nothing is to be carried,
    it asks after pauses that double, up to `every` seconds. Who does not answer, or wrongly, is written to again after
    `every` seconds; what is wrong is logged, once.
    """

    def __init__(self, exchange: Exchange, names: Mapping[str, str], every: float) -> None:
        self._postman, self._every, self._log = Postman(exchange), every, RoleLog()
        self._nodes = {node: _Node(name, place_of(name)) for node, name in names.items()}
        self._by_claim, self._wrong = not names, ""

    def letters(self, connected: Iterable[str]) -> dict[str, bytes]:
        """Return letters for the nodes that are there, and are written to now; none while the exchange is away."""
        letters: dict[str, bytes] = {}
        try:
            self._postman.look()
        except (InputError, OSError) as error:
            if str(error) != self._wrong:
                self._log.error("%s", one_line(str(error)))
            self._wrong = str(error)
            return letters
        self._wrong = ""
        for address in connected:
            if self._by_claim:
                self._nodes.setdefault(address, _Node())
            node = self._nodes.get(address)
            if node is None or node.waits:
                continue
            late = node.due <= time.monotonic()
            if not late and (node.wrong or self._postman.files == node.told):
                continue
            letter, carried = self._postman.write(node.known, but(node.place), node.name)
            if late or carried:
                letters[address], node.waits = letter, True
            node.told = dict(self._postman.files)
        return letters

    def take(self, address: str, data: bytes) -> None:
        """Take a node's answer."""
        node = self._nodes[address]
        try:
            letter = self._postman.open(data)
            own = place_of(letter.name)
            if not node.place and not any(map(only(own), (other.place for other in self._nodes.values()))):
                node.name, node.place = letter.name, own
            taken = self._postman.take(letter, but(node.place))
        except (FheAucError, OSError) as error:
            self.failed(address, str(error))
            return
        if node.wrong or node.known is None:
            self._log.info("node %s: letters come and go", address, extra={"party": node.name})
        moved = taken or letter.known != node.known
        node.pause = min(_SHORTEST if moved else 2 * node.pause, self._every)
        node.known, node.waits, node.wrong, node.due = letter.known, False, "", time.monotonic() + node.pause

    def failed(self, address: str, why: str) -> None:
        """Note that a node has not answered, and why."""
        node = self._nodes[address]
        if node.wrong != why:
            self._log.warning("node %s: %s", address, one_line(why), extra={"party": node.name})
        node.waits, node.wrong, node.due = False, why, time.monotonic() + self._every


def _place(name: str) -> str:
    return name[: name.index("/") + 1]


def _is_for_others(name: str, site: str) -> bool:
    """Whether a file, by its name (`fhe_auc.machines.file_transport`), is for the server, or another site alone."""
    return name.endswith(".submission") or (name.endswith(".bundle") and not name.endswith(f"/{file_of(site)}.bundle"))
