"""Sessions of `exact`, `verified` and others with keys, all roles in one process, round by round."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest

from fhe_auc.base.serialise import decode, encode
from fhe_auc.question import thresholds
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.rlwe.ring_parameters import available_backends
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.messages import Message
from fhe_auc.session.party import Party
from fhe_auc.session.protocol import Request
from fhe_auc_keys.bundles.session_keys import DealtSession
from fhe_auc_protocols.exact_auc.exact_protocols import Exact, Verified
from tests.support.several import auc_of
from tests.support.wire import LIMIT

BACKENDS = available_backends()
PLUGINS = {"exact": Exact(), "verified": Verified()}
GRID = thresholds.uniform(12)
both_backends = pytest.mark.parametrize("backend", BACKENDS)
both_protocols = pytest.mark.parametrize("protocol", PLUGINS)
slow = partial(pytest.param, marks=pytest.mark.slow)
all_keys = pytest.mark.parametrize("keys", ["sealed", "helper"])


def rows(number: int, seed: int, *, ones: float = 0.4, most: int = 60) -> list[PartyData]:
    generator = np.random.default_rng(seed)
    made = []
    for party in range(number):
        labels = generator.random(int(generator.integers(1, most))) < ones
        made.append(PartyData.from_arrays(f"site {party}", labels, generator.random(len(labels)).round(3)))
    return made


def pairs_of(parties: Sequence[PartyData], grid: Any = GRID) -> tuple[Fraction, Fraction, int, int]:
    """AUC, half-width, P and N by going through all pairs of rows; a score's bin is the last threshold it reaches."""
    bins = [np.searchsorted(grid, each.y_score, side="right") for each in parties]
    ones = np.concatenate([at[each.y_true] for at, each in zip(bins, parties, strict=True)])
    zeros = np.concatenate([at[~each.y_true] for at, each in zip(bins, parties, strict=True)])
    auc, half_width = auc_of(ones, zeros)  # type: ignore[misc]
    return auc, half_width, len(ones), len(zeros)


def found_in(result: Evaluation) -> tuple[Fraction | None, Fraction | None, int | None, int | None]:
    return result.fraction, result.binning_error_fraction, result.positives, result.negatives


class Play:
    """All roles of one session."""

    def __init__(
        self, protocol: str, sites: Sequence[PartyData], grid: Any = GRID, *, max_rows: int = 2000, **request: Any
    ) -> None:
        self.plugin, self.sites, self.grid = PLUGINS.get(protocol) or registry.load(protocol), sites, grid
        names = tuple(data.name for data in sites)
        self.session: Any = self.plugin.prepare(Request(parties=names, thresholds=grid, max_rows=max_rows, **request))
        self.manifest = self.session.manifest
        self.plan = self.plugin.plan_of(self.manifest)
        self.helper: Any = None
        if self.manifest.keys == "sealed":
            self.material, material = material_of(self.session), self.session.aggregator_material
        else:
            self.delivery = self.session.delivery()
            self.material, material = dict(self.delivery.parties), self.delivery.aggregator
            if self.delivery.helper is not None:
                self.helper = self.plugin.helper(self.manifest, self.delivery.helper)
        self.aggregator: Any = self.plugin.aggregator(self.manifest, material)
        self.parties: list[Any] = [self.party(data) for data in sites]

    def party(self, data: PartyData, manifest: Manifest | None = None) -> Party[Evaluation]:
        """Another party with this name, made of the same material."""
        return self.plugin.party(manifest or self.manifest, self.material[data.name], data)

    def answers(self, message: bytes) -> dict[str, bytes]:
        asked = self.aggregator.asked
        roles = self.parties if self.helper is None else [*self.parties, self.helper]
        return {role.name: role.respond(message) for role in roles if role.name in asked}

    def deliver(self, submissions: dict[str, bytes]) -> bytes | None:
        for name, submission in submissions.items():
            self.aggregator.receive(name, submission)
        return self.aggregator.finish_round()

    def messages(self, without: Sequence[str] = ()) -> Iterator[bytes]:
        """Play to the end, where some answer nothing; yields each message of the aggregator before it is answered."""
        message: bytes | None = self.aggregator.start()
        while message is not None:
            yield message
            answers = self.answers(message)
            message = self.deliver({name: answer for name, answer in answers.items() if name not in without})

    def until(self, round_number: int) -> bytes:
        """Play honestly up to a round, and return the message that opens it."""
        message = self.aggregator.start()
        while self.aggregator.round < round_number:
            message = self.deliver(self.answers(message))
        return message

    def lie(self, change: Callable[[list[Words]], None]) -> None:
        """Have the aggregator change the sums of sketches, each of shape (1, size), before it computes."""
        honest = self.aggregator._side.aggregate

        def lying(totals: list[Words]) -> bytes:
            words = [each.copy() for each in totals]
            change(words)
            return bytes(honest(words))

        self.aggregator._side.aggregate = lying

    def read(self, message: bytes | None = None) -> list[Evaluation]:
        """Play on from a message, or from the beginning, and return everybody's result."""
        message = self.aggregator.start() if message is None else message
        while message is not None:
            message = self.deliver(self.answers(message))
        return [party.result() for party in self.parties]


def material_of(session: DealtSession) -> dict[str, bytes]:
    """What each party of a session with sealed keys finds in its bundle."""
    return {name: encode(session.secrets_of(name)) for name in session.manifest.parties}


def with_payload(message: bytes, change: Callable[[Any], Any], shape: Any = tuple[bytes, ...]) -> bytes:
    """The same message with another payload."""
    found = Message.from_bytes(message, limit=LIMIT)
    return msgspec.structs.replace(found, payload=encode(change(decode(found.payload, shape, "payload")))).to_bytes()
