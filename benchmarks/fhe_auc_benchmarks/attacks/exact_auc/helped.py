"""Lies in sessions with a helper: of the helper, which returns other sums, and of parties (`lying_parties`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from fhe_auc.base.errors import EvaluationError
from fhe_auc.base.names import HELPER
from fhe_auc.base.serialise import decode
from fhe_auc.bfv import SecretContext
from fhe_auc.results.evaluation import Evaluation, Outcome
from fhe_auc.rlwe.modular import Residues, add
from fhe_auc.session.aggregator import conduct
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import Party
from fhe_auc_benchmarks.attacks.exact_auc.ciphertexts import HONEST, PROTOCOLS, judged, play, request_for
from fhe_auc_benchmarks.attacks.exact_auc.lying_parties import LIES, Lie, lying_party
from fhe_auc_benchmarks.attacks.exact_auc.strategies import Strategy, View
from fhe_auc_benchmarks.attacks.laboratory import HARMLESS, SITES, answering, made_up_sites, refused_by
from fhe_auc_keys.roles.helper import Helper, HelperMaterial
from fhe_auc_protocols.exact_auc.computations import ExactComputation

THE_AGGREGATOR, THE_HELPER = "the aggregator", "the helper"  # who names a party that lies
PARTIES = (*SITES, "west")
TOLD_BY = 2  # who lies where one party does
LEFT_OUT = "left out"
_CAP = 90  # of each party; none has so many rows
FORGED = "forge-difference", "forge-at-1", "guess-point", "chosen-values", "plausible-values", "zeros"
"""Strategies that add constants to the sums, or return constants alone."""


class _Forging(ExactComputation):
    """Decrypts, and plays a strategy on the sums."""

    def __init__(self, manifest: Manifest, strategy: Strategy, generator: np.random.Generator) -> None:
        super().__init__(manifest)
        self._strategy, self._generator = strategy, generator

    def decrypt(self, secret: SecretContext, result: bytes) -> list[Residues]:
        """Return other sums than the result's."""
        seed, found = self._generator.integers(2**63), []  # the same choices for every prime
        of_primes = zip(super().decrypt(secret, result), self.plan.computed, self.primes, strict=True)
        for totals, computed, prime in of_primes:
            unseen = [np.zeros(computed.sketch.size, np.uint64)]
            view = View(computed, prime, unseen, 0, np.random.default_rng(seed))
            claim = self._strategy.tell(view)
            found.append(add(totals if claim.computed else np.zeros_like(totals), claim.constants(view), prime))
        return found


def play_forged(strategy: Strategy, protocol: str, generator: np.random.Generator) -> str:
    """Play a session in which the helper forges the sums."""

    def forging(manifest: Manifest, material: bytes) -> Party[Outcome]:
        own = decode(material, HelperMaterial, "material")
        return Party(manifest, HELPER, Helper(manifest, _Forging(manifest, strategy, generator), own))

    return play(HONEST, "helper", protocol, generator, helper=forging)


class Trial(NamedTuple):
    """What came of a session.

    came : as of `judged`, by the honest parties; `LEFT_OUT` where no liar counts and it is right
    named_by : who names each party that is left out, `THE_AGGREGATOR` or `THE_HELPER`
    """

    came: str
    named_by: Mapping[str, str]


def play_parties(
    lies: Mapping[int, Lie], protocol: str, generator: np.random.Generator, *, proofs: bool = True
) -> Trial:
    """Play a session in which the parties of these indices lie; `proofs`: whether parties prove their row caps."""
    plugin, sites = PROTOCOLS[protocol](), made_up_sites(generator, PARTIES)
    caps = _CAP if proofs else None
    session = plugin.prepare(request_for(parties=PARTIES, min_parties=2, keys="helper", row_caps=caps))
    manifest, delivery = session.manifest, session.delivery()
    aggregator, helper = plugin.aggregator(manifest, b""), plugin.helper(manifest, delivery.helper or b"")
    rows, roles = sum(data.rows for data in sites), list[Party[Evaluation]]()
    for index, data in enumerate(sites):
        lying = partial(lying_party, lie=lies[index], rows=rows) if index in lies else plugin.party
        roles.append(lying(manifest, delivery.parties[data.name], data))
    try:
        conduct(aggregator, answering(aggregator, [*roles, helper]), refused=lambda error: None)
    except EvaluationError as error:
        return Trial(refused_by(error), {})
    counted, named = aggregator.counted, aggregator.refusals
    named_by = {party: THE_HELPER if party in helper.who.unproved else THE_AGGREGATOR for party in named}
    honest = [role for index, role in enumerate(roles) if index not in lies]
    came = judged(honest, [data for data in sites if data.name in counted])
    left_out = came == HARMLESS and not any(PARTIES[index] in counted for index in lies)
    return Trial(LEFT_OUT if left_out else came, named_by)


def play_party(name: str, proofs: bool, protocol: str, generator: np.random.Generator) -> str:
    """Play a session in which one party tells one of `LIES`; return what came of it, or who names the liar."""
    told = play_parties({TOLD_BY: LIES[name]}, protocol, generator, proofs=proofs)
    return f"{told.named_by[PARTIES[TOLD_BY]]} names it" if told.came == LEFT_OUT else told.came
