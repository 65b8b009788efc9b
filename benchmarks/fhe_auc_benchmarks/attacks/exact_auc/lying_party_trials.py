"""Sessions of `exact` and `verified` with a helper, of which some parties lie (`lying_parties`); all roles are real."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from fhe_auc.base.errors import EvaluationError
from fhe_auc.question.analysis import PLAIN, Analysis, Variable
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.session import registry
from fhe_auc.session.aggregator import conduct
from fhe_auc.session.party import Party
from fhe_auc_benchmarks.attacks.exact_auc.ciphertexts import answering, judged, request_for
from fhe_auc_benchmarks.attacks.exact_auc.lying_parties import LIES, Lie, lying_party
from fhe_auc_benchmarks.attacks.laboratory import HARMLESS, SITES, AttackOutcome, made_up_sites

PARTIES = (*SITES, "west")
TOLD_BY = 2  # who lies where one party does
SEVERAL = Analysis(
    models=("a", "b"), by=(Variable("sex", ("f", "m")), Variable("age", ("young", "middle", "old"))), min_cell=1
)
THE_AGGREGATOR, THE_HELPER, NOBODY = "the aggregator", "the helper", "nobody"
LEFT_OUT = "left out"
_CAP = 90  # of each party; none has so many rows


class Trial(NamedTuple):
    """What came of a session.

    verdict : `PASSED` where an honest party accepts a wrong number, `HARMLESS` where what all accept is right though a
        liar counts, `LEFT_OUT` where no liar counts and it is right; or the name of the error with which they refuse
    named_by : who names each party that is left out, `THE_AGGREGATOR` or `THE_HELPER`
    """

    verdict: str
    named_by: Mapping[str, str]


def play(
    lies: Mapping[int, Lie],
    protocol: str,
    generator: np.random.Generator,
    *,
    proofs: bool = True,
    backend: str | None = None,
) -> Trial:
    """Play a session in which the parties of these indices lie; `proofs`: whether parties prove their row caps.

    Rows have groups and two models where a lie takes them.
    """
    analysis = SEVERAL if any(lie.columns or lie.models > 1 for lie in lies.values()) else PLAIN
    plugin = registry.evaluating(protocol)
    caps = _CAP if proofs else None
    request = request_for(backend, parties=PARTIES, min_parties=2, keys="helper", row_caps=caps, analysis=analysis)
    session, sites = plugin.prepare(request), made_up_sites(generator, PARTIES, analysis)
    manifest, delivery = session.manifest, session.delivery()
    aggregator, helper = plugin.aggregator(manifest, b""), plugin.helper(manifest, delivery.helper or b"")
    rows = sum(data.rows for data in sites)
    roles: list[Party[Evaluation]] = []
    for index, data in enumerate(sites):
        material = delivery.parties[data.name]
        if index in lies:
            roles.append(lying_party(manifest, material, data, lies[index], rows))
        else:
            roles.append(plugin.party(manifest, material, data))

    try:
        conduct(aggregator, answering(aggregator, [*roles, helper]), refused=lambda error: None)
    except EvaluationError as error:
        return Trial(type(error).__name__, {})
    counted, named = aggregator.counted, aggregator.refusals
    named_by = {party: THE_HELPER if party in helper.unproved else THE_AGGREGATOR for party in named}
    honest = [role for index, role in enumerate(roles) if index not in lies]
    worst = judged(honest, [data for data in sites if data.name in counted], analysis)
    if worst == HARMLESS and not any(PARTIES[index] in counted for index in lies):
        worst = LEFT_OUT
    return Trial(worst, named_by)


def run(name: str, protocol: str, trials: int, seed: int, *, proofs: bool = True) -> AttackOutcome:
    """Play one of `LIES` in so many sessions, by the seed; refusals go by who names the liar, or by parties' errors."""
    generator, found = np.random.default_rng(seed), Counter[str]()
    for _ in range(trials):
        trial = play({TOLD_BY: LIES[name]}, protocol, generator, proofs=proofs)
        found[trial.named_by.get(PARTIES[TOLD_BY], NOBODY) if trial.verdict == LEFT_OUT else trial.verdict] += 1
    return AttackOutcome.counted(found, changed=trials)
