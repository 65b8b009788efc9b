"""A key mode: who holds which key of a session, and so how it is prepared, and which roles play it.

The echo: parties that are given a result tell each other which, and none reads it unless all were given the same.
Without it an aggregator that may lie could give each party another result, and a lie would have as many tries as there
are parties. To outsiders an echo tells nothing.
"""

import hashlib
import hmac
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

from fhe_auc.base.errors import DeserialisationError, InputError, VerificationError
from fhe_auc.base.keystream import KeyStream, derived_key
from fhe_auc.base.serialise import decode
from fhe_auc.session.aggregator import Aggregator
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import Party, R
from fhe_auc.session.protocol import Request, Session
from fhe_auc_keys.errors import KeysError

ECHO_BYTES = 32
_ECHO_LABEL = b"fhe-auc echo 1\0"
T = TypeVar("T")


class Echo:
    """The comparison of results between the parties of a session with sealed keys."""

    def of(self, result: bytes, manifest: Manifest, common_secret: bytes) -> dict[str, bytes]:
        """Return each party's echo of this result, 32 bytes, by name."""
        key = derived_key(common_secret, manifest.digest, _ECHO_LABEL)
        stream = KeyStream(hmac.digest(key, hashlib.sha256(result).digest(), "sha256"))
        echoes = stream.words(len(manifest.parties), ECHO_BYTES // 8)
        return {name: echo.tobytes() for name, echo in zip(manifest.parties, echoes, strict=True)}

    def compare(self, echoes: tuple[bytes, ...], expected: dict[str, bytes], parties: tuple[str, ...]) -> None:
        """Raise `VerificationError` where a party was given another result; `DeserialisationError` for too few."""
        if len(echoes) != len(parties):
            raise DeserialisationError(f"echoes of {len(echoes)} parties, of {len(parties)}")
        for party, echo in zip(parties, echoes, strict=True):
            if not hmac.compare_digest(echo, expected[party]):
                raise VerificationError(
                    f"party {party!r} was given another result than this one, or its word was changed on the way: "
                    "no number is given",
                    check="echo",
                )


class KeyMode(ABC):
    """One of the ways in which the keys of a protocol's sessions may be held.

    `computation` makes the computation of a session from its manifest. By `echo`, if any, parties compare the result
    that each was given. Materials are those of `fhe_auc.session.protocol.Delivery`; the methods that take one raise
    `InputError` where it is malformed or of another session.
    """

    def __init__(self, computation: Callable[..., Any], echo: Echo | None = None) -> None:
        self.computation, self.echo = computation, echo

    def check(self, request: Request) -> None:  # noqa: B027 - most modes have all that is asked for
        """Raise `InputError` where a request asks for what this mode has not."""

    @abstractmethod
    def prepare(self, plan: Any, announced: Callable[..., Manifest]) -> Session:
        """Make the keys that are there beforehand; `announced` makes the manifest, which has their fingerprint."""

    @abstractmethod
    def aggregator(self, manifest: Manifest, material: bytes) -> Aggregator:
        """Return the aggregator."""

    @abstractmethod
    def party(self, manifest: Manifest, material: bytes, task: Any) -> Party[Any]:
        """Return the party that has this task, of the kind that the mode's computation takes."""

    def helper(self, manifest: Manifest, material: bytes) -> Party[Any]:
        """Return the helper; raise `InputError` where there is none."""
        raise InputError("the session has no helper")


class MadeWhenAsked(Mapping[str, T]):
    """What `make` makes of these names, each when it is asked for."""

    def __init__(self, make: Callable[[str], T], names: Collection[str]) -> None:
        self._make, self._names = make, names

    def __getitem__(self, name: str) -> T:
        if name not in self._names:
            raise KeyError(name)
        return self._make(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Modes(MadeWhenAsked[KeyMode]):
    """The modes of a protocol, by name, each made once: those of few sessions load much."""

    def __init__(self, **made: Callable[[], KeyMode]) -> None:
        super().__init__(cache(lambda name: made[name]()), made)


class KeyedParty(Party[R]):
    """A party of a session with keys: it measures its steps, and cannot be copied."""

    def __reduce__(self) -> str:
        raise TypeError("a party is not pickled or copied: a second one would submit for it, too")

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        """Add the seconds that a step takes to what the result will say."""
        started = time.perf_counter()
        yield
        self._seconds[step] = self._seconds.get(step, 0.0) + time.perf_counter() - started

    def _end(self, outcome: R, **costs: Any) -> None:
        """Take what the session yields."""
        self._outcome = replace(outcome, keys=self.manifest.keys, seconds=self._seconds, **costs)


@contextmanager
def reading_material() -> Iterator[None]:
    """Raise `InputError` where a role's material is refused with a `DeserialisationError` or `KeysError`."""
    try:
        yield
    except (DeserialisationError, KeysError) as error:
        raise InputError(str(error)) from None


def read_material(material: bytes, shape: type[T]) -> T:
    """Return a role's material; raise `InputError` where it is none of this kind."""
    with reading_material():
        return decode(material, shape, "material")
