"""Liars who want to learn a count: positives in a bin are its negatives' weight in Σ p_k·n_k, by which they divide."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from fhe_auc.base.party_names import HELPER
from fhe_auc.rlwe import modular
from fhe_auc.rows.counts import count
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.aggregator import conduct
from fhe_auc_benchmarks.attacks.exact_auc.ciphertexts import GRID, PROTOCOLS, ExactAucAttacks, answering, request_for
from fhe_auc_benchmarks.attacks.exact_auc.strategies import WEIGHED_BIN, WEIGHT
from fhe_auc_benchmarks.attacks.laboratory import SITES, LearningAttack, made_up_sites
from fhe_auc_benchmarks.attacks.learning.readers import listening
from fhe_auc_protocols.exact_auc.computations import ExactPaddedComputation

_CAP, _WHAT = 90, f"pooled negatives of bin {WEIGHED_BIN}"


def _weigh(
    protocol: str, keys: str, generator: np.random.Generator, *, made_up: int = 0, published: bool = False,
    promised: tuple[str, ...] = (), **request: Any,
) -> tuple[set[str], set[str]]:  # fmt: skip
    """A site with so many `made_up` rows reads what it decrypts; without them the aggregator adds the weight."""
    sites, plugin, decrypted = made_up_sites(generator), PROTOCOLS[protocol](), list[list[modular.Residues]]()
    if made_up:
        score = float(np.mean(GRID[WEIGHED_BIN - 1 : WEIGHED_BIN + 1]))
        sites[-1] = PartyData.from_arrays(SITES[-1], np.ones(made_up), np.full(made_up, score))
    session = plugin.prepare(request_for(None, keys=keys, max_rows=2 * WEIGHT, **request))
    manifest, delivery = session.manifest, session.delivery()
    honest = plugin.aggregator(manifest, delivery.aggregator)
    aggregator: Any = (
        honest if made_up else ExactAucAttacks().aggregator("weigh-bin", manifest, delivery.aggregator, rows=0)
    )
    roles = [plugin.party(manifest, delivery.parties[each.name], each) for each in sites]
    roles += [plugin.helper(manifest, delivery.helper or b"")] if HELPER in manifest.answering else []
    with listening(ExactPaddedComputation, "decrypt", lambda found, *given: decrypted.append(found)):
        conduct(aggregator, answering(aggregator, roles))
    plan = roles[0]._task.plan
    (ties,) = (k for k, each in enumerate(plan.computed.sums) if each.name.removesuffix(" at 0") == "ties")
    weighed = modular.centred(decrypted[0], plan.parameters.plain_moduli)[ties]
    if published:
        told = roles[0].result()
        weighed = round(told.binning_error * 2 * told.positives * told.negatives)
    true = sum(int(count(each, GRID).bin_negatives[WEIGHED_BIN]) for each in sites)
    return ({_WHAT} if weighed // (made_up or WEIGHT) == true else set()), {
        _WHAT for each in promised if each == protocol
    }


_EXACT = "exact", "verified"
_BOTH = {"sealed": _EXACT, "helper": _EXACT}
_MAKES_UP = partial(_weigh, made_up=WEIGHT)
LIARS = {
    "made-up-rows": LearningAttack("a site: make up rows in a bin", partial(_MAKES_UP, promised=_EXACT), _BOTH),
    "made-up-rows-capped": LearningAttack(
        "a site: the same within a proved row cap", partial(_weigh, made_up=_CAP, row_caps=_CAP), {"helper": _EXACT}
    ),
    "against-noise": LearningAttack(
        "a site: the same against epsilon, where no row cap is proved",
        partial(_MAKES_UP, options={"epsilon": 1.0}), {key: _EXACT[1:] for key in _BOTH},
    ),
    "published": LearningAttack(
        "aggregator: add rows to a bin, and look at what is published",
        partial(_weigh, published=True, promised=_EXACT[:1]), _BOTH,
    ),
    "with-a-site": LearningAttack(
        "aggregator and a site: the same, of what sites decrypt", partial(_weigh, promised=_EXACT), _BOTH
    ),
}  # fmt: skip
"""By name."""
