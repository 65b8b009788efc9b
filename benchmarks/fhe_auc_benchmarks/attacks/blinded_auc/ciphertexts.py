"""Lies of an aggregator told on real ciphertexts, against parties that follow the protocol.

The liar holds what every aggregator holds: the public key, and what parties send. It has neither the secret key nor the
common secret. A strategy gets these things (`aggregator_view`) and returns the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar

import msgspec
import numpy as np

from fhe_auc import ckks
from fhe_auc.base.errors import DeserialisationError, FheAucError, MessageError
from fhe_auc.base.serialise import decode, encode
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.question import thresholds
from fhe_auc.rows.counts import count
from fhe_auc.session.aggregator import Aggregator, conduct
from fhe_auc.session.attacks import Attacks
from fhe_auc.session.computation import Result
from fhe_auc.session.manifest import SESSION_BYTES, Manifest
from fhe_auc.session.protocol import Request
from fhe_auc_benchmarks.attacks.blinded_auc.aggregator_view import BlindedView, Submission
from fhe_auc_benchmarks.attacks.blinded_auc.strategies import NEED_EARLIER, STRATEGIES, Tell
from fhe_auc_benchmarks.attacks.laboratory import (
    HARMLESS,
    PASSED,
    SITES,
    LyingSide,
    answering,
    known,
    made_up_sites,
    refused_by,
)
from fhe_auc_benchmarks.attacks.simulated import HARM
from fhe_auc_keys.bundles.session_keys import DealtSession
from fhe_auc_keys.roles.sealed import SealedAggregator
from fhe_auc_protocols.blinded_auc.malicious import Malicious
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from fhe_auc_protocols.blinded_auc.protocol import BlindedAuc, trapezoid_computation
from fhe_auc_protocols.blinded_auc.semi_honest import SemiHonest

PROTOCOLS: dict[str, type[BlindedAuc]] = {"semi-honest": SemiHonest, "malicious": Malicious}
_GRID = thresholds.uniform(16)
_CHANGES = {"semi-honest": (0.06, 0.08), "malicious": (0.002, 0.02)}
"""Relative: what rounding leaves to be seen; and what does harm, of which the least is the likeliest to pass."""
_SHOWN_CHANGE = 0.07


class LyingBlindedSide(LyingSide):
    """What an aggregator sends that plays a strategy; `earlier` is the side of an earlier session, if any.

    `change` and `rows` are those of the `BlindedView`.
    """

    def __init__(
        self,
        manifest: Manifest,
        material: bytes,
        tell: Tell,
        generator: np.random.Generator,
        *,
        rows: int,
        change: float = _SHOWN_CHANGE,
        earlier: LyingBlindedSide | None = None,
    ) -> None:
        computation, self._plan = trapezoid_computation(manifest), manifest.decoded_plan(AucPlan)
        self._context, self._tell, self._earlier = ckks.load_public(material), tell, earlier
        self._own = generator, rows, change
        total, echo = computation.running_sum(self._context), self._plan.split
        super().__init__(SealedAggregator(total, bytes, computation.payload_limit, echo=echo), 1, self.result)
        self.content = b""

    @property
    def submissions(self) -> dict[str, Submission]:
        """What parties have sent, as ciphertexts."""
        return {
            party: [self._context.read_submission(block) for block in decode(sent, tuple[bytes, ...], "submission")]
            for party, sent in self.sent.items()
        }

    def result(self, _: Mapping[str, bytes], counted: tuple[str, ...]) -> bytes:
        """Return what the strategy makes a result."""
        earlier = None if self._earlier is None else (self._earlier.submissions, self._earlier.content)
        self.content = self._tell(BlindedView(self._context, self._plan, self.submissions, *self._own, earlier))
        return encode(Result(counted, self.content))


class BlindedAucAttacks(Attacks):
    """Strategies against ``semi-honest`` and ``malicious``, to be seen: they change more than they need."""

    descriptions: ClassVar[Mapping[str, str]] = {name: strategy.what for name, strategy in STRATEGIES.items()}

    def aggregator(self, attack: str, manifest: Manifest, material: bytes, *, rows: int) -> Aggregator:
        """Return an aggregator that plays a strategy; raise `InputError` for another name."""
        known(attack, STRATEGIES)
        generator, tell = np.random.default_rng(0), STRATEGIES[attack].tell
        return Aggregator(manifest, LyingBlindedSide(manifest, material, tell, generator, rows=rows))


@lru_cache
def dealt(protocol: str, backend: str | None = None) -> DealtSession:
    """Return a session whose keys serve all trials; that takes nothing from a liar."""
    session = PROTOCOLS[protocol]().prepare(Request(parties=SITES, thresholds=_GRID, backend=backend))
    if not isinstance(session, DealtSession):
        raise TypeError("a session with sealed keys deals secrets")
    return session


def play(name: str, protocol: str, generator: np.random.Generator) -> str:
    """Play a session in which the aggregator tells one of `STRATEGIES`; return what comes of it."""
    earlier = None
    if name in NEED_EARLIER:
        earlier = played(BlindedView.result, protocol, generator, None)[0]
    return played(STRATEGIES[name].tell, protocol, generator, earlier)[1]


def played(
    tell: Tell,
    protocol: str,
    generator: np.random.Generator,
    earlier: LyingBlindedSide | None,
    backend: str | None = None,
) -> tuple[LyingBlindedSide, str]:
    """Play a session, with an id and rows of its own; return the aggregator's side, and what the first party makes.

    That is `PASSED` where it accepts a wrong AUC, `HARMLESS`, or the check that refuses; "message" for what does not
    get as far as a check. `semi-honest` rounds: there half a unit in the last place is right.
    """
    plugin, keys = PROTOCOLS[protocol](), dealt(protocol, backend)
    manifest = msgspec.structs.replace(keys.manifest, session=generator.bytes(SESSION_BYTES))
    delivery, sites = replace(keys, manifest=manifest).delivery(), made_up_sites(generator)
    rows, change = sum(data.rows for data in sites), float(np.exp(generator.uniform(*np.log(_CHANGES[protocol]))))
    side = LyingBlindedSide(manifest, delivery.aggregator, tell, generator, rows=rows, change=change, earlier=earlier)
    roles = [plugin.party(manifest, delivery.parties[data.name], data) for data in sites]
    aggregator = Aggregator(manifest, side)
    first, *others = (count(data, _GRID) for data in sites)
    try:
        conduct(aggregator, answering(aggregator, roles))
        found = roles[0].result()
    except (DeserialisationError, MessageError):
        return side, "message"
    except FheAucError as error:
        return side, refused_by(error)
    slack = HARM if found.decimals is None else 0.5 * 10**-found.decimals + 1e-9
    wrong = abs(found.auc - trapezoid(sum(others, start=first)).auc) >= slack
    return side, PASSED if wrong else HARMLESS
