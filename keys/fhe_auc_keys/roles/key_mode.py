"""A key mode: who holds which key of a session, and so how it is prepared, and which roles play it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from fhe_auc.base.errors import InputError
from fhe_auc.session.aggregator import Aggregator
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import Party
from fhe_auc.session.protocol import Request, Session
from fhe_auc_keys.roles.echo import Echo


class KeyMode(ABC):
    """One of the ways in which a protocol's keys may be held; made of the protocol's computation for it.

    Materials are what `fhe_auc.session.protocol.Delivery` has; `InputError` is raised for those of another session.
    """

    computation: Callable[..., Any]
    """Makes the computation of a session, of its manifest."""

    echo: Echo | None = None
    """By which parties compare the result that each was given; None: they do not."""

    def check(self, request: Request) -> None:
        """Raise `InputError` where a request asks for what this mode has not."""
        if request.smudging_bits is not None:
            raise InputError("smudging_bits is for joint keys only: there are no partial decryptions otherwise")

    @abstractmethod
    def prepare(self, plan: Any, announced: Callable[..., Manifest]) -> Session:
        """Make the keys that have to be there beforehand; `announced` makes the manifest.

        Its `context` is their fingerprint, which is left out where there are no keys yet.
        """

    @abstractmethod
    def aggregator(self, manifest: Manifest, material: bytes) -> Aggregator:
        """Return the aggregator."""

    @abstractmethod
    def party(self, manifest: Manifest, material: bytes, task: Any) -> Party[Any]:
        """Return the party that has this task, of the kind that the mode's computation takes."""

    def helper(self, manifest: Manifest, material: bytes) -> Party[Any]:
        """Return the helper; raise `InputError` where there is none."""
        raise InputError("the session has no helper")


def require_all(request: Request) -> None:
    """Raise `InputError` where a request lets parties be left out, and none can be."""
    if request.min_parties not in (None, request.size):
        raise InputError("min_parties does not apply: with joint keys, and with malicious, no party can be left out")
