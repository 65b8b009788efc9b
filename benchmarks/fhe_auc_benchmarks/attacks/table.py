"""The table of lies: of an aggregator, a helper and parties, by name, with what may come of each."""

from collections.abc import Mapping
from functools import partial

from fhe_auc_benchmarks.attacks import simulated
from fhe_auc_benchmarks.attacks.blinded_auc import ciphertexts as blinded
from fhe_auc_benchmarks.attacks.blinded_auc import strategies as of_blinded
from fhe_auc_benchmarks.attacks.exact_auc import ciphertexts as exact
from fhe_auc_benchmarks.attacks.exact_auc.lying_parties import LIES
from fhe_auc_benchmarks.attacks.exact_auc.strategies import STRATEGIES, Strategy
from fhe_auc_benchmarks.attacks.laboratory import HARMLESS, PASSED, Row

PROTOCOLS = {"malicious": ("semi-honest", "malicious"), "verified": ("exact", "verified")}
"""By a protocol that promises something: with it the one that promises nothing, which shows what a lie does."""
_IN_BULK = 1_000  # sessions of a trial, on numbers
_CHECKED = frozenset(["executions", "equations", "denominator", "range"])
_REFUSED = frozenset(["authenticator"])
_OF_SEMI_HONEST = {
    of_blinded.HARMLESS: frozenset([HARMLESS]),
    of_blinded.PASSES: frozenset([PASSED, HARMLESS]),  # it rounds
    of_blinded.REDUNDANT: frozenset(["redundancy", "range"]),
    None: None,
}


def on_malicious() -> dict[str, Row]:
    """Return the lies of an aggregator of ``semi-honest`` and ``malicious``."""
    found = {}
    for name, own in of_blinded.STRATEGIES.items():
        may = _CHECKED | {"message"}
        if name in ("scale-all", "change-coefficient", "flip-bytes"):  # it may be a coefficient that tells nothing
            may |= {HARMLESS}
        of_both = {"semi-honest": _OF_SEMI_HONEST[own.semi_honest], "malicious": may}
        found[name] = Row("aggregator", own.what, of_both, partial(blinded.play, own.tell))
    for name, (what, tell) in simulated.LUCKIEST.items():
        for end, tolerance, more in (("", None, frozenset[str]()), ("-loose", simulated.LOOSE, {PASSED, HARMLESS})):
            said = f"on numbers, at a tolerance of {tolerance:g}" if tolerance else "on numbers"
            play = partial(simulated.play_numbers, tell, tolerance)
            checked = {"malicious": _CHECKED | more}
            found[f"luckiest-{name}{end}"] = Row("aggregator", f"{what}, {said}", checked, play, _IN_BULK)
    return found


def on_verified(keys: str) -> dict[str, Row]:
    """Return the lies of ``exact`` and ``verified``, with sealed keys, or a helper."""
    found = {
        name: Row("aggregator", own.what, _may(own), partial(exact.play, own, keys)) for name, own in STRATEGIES.items()
    }
    if keys == "sealed":
        small = f"guess the point, with the one prime {simulated.SMALL_PRIME}"
        lucky, play = {"verified": _REFUSED | {PASSED}}, simulated.play_small_field
        return found | {"guess-point-small": Row("aggregator", small, lucky, play, _IN_BULK, simulated.PROVED)}
    for name in exact.FORGED:
        own = STRATEGIES[name]
        found[f"helper-{name}"] = Row("helper", own.what, _may(own), partial(exact.play_forged, own))
    for name, lie in LIES.items():
        protocols = PROTOCOLS["verified"][lie.spoils_tags :]
        by = exact.THE_AGGREGATOR if lie.unbound else exact.THE_HELPER
        may = _REFUSED if lie.spoils_tags else frozenset([f"{by} names it"])
        found[name] = Row("a party", lie.what, dict.fromkeys(protocols, may), partial(exact.play_party, name, True))
        if not (lie.on_proofs or lie.spoils_tags):
            what = f"{lie.what}, where nobody proves anything"
            anything = dict[str, frozenset[str] | None].fromkeys(protocols)
            found[f"{name}-unproved"] = Row("a party", what, anything, partial(exact.play_party, name, False))
    return found


def _may(strategy: Strategy) -> Mapping[str, frozenset[str] | None]:
    """Return what may come of it: of `exact` anything, but what is on tags, which it has not."""
    if strategy.harmless:
        return dict.fromkeys(PROTOCOLS["verified"], frozenset([HARMLESS]))
    credulous = {"exact": frozenset([PASSED]) if strategy.passes else None}
    return ({} if strategy.on_tags else credulous) | {"verified": _REFUSED}
