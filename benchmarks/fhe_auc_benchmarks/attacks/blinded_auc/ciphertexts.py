"""Lies of an aggregator told on real ciphertexts, against parties that follow the protocol.

The liar holds what every aggregator holds: the public key, and what parties send. It has neither the secret key nor the
common secret. A strategy gets these things (`aggregator_view`) and returns the result.
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from fhe_auc.base.errors import DeserialisationError, MessageError
from fhe_auc.base.serialise import decode, encode
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.question import thresholds
from fhe_auc.rows.counts import count
from fhe_auc.session.aggregator import Aggregator, conduct
from fhe_auc.session.attacks import Attacks
from fhe_auc.session.computation import Result
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Request
from fhe_auc_benchmarks.attacks.blinded_auc.aggregator_view import BlindedView
from fhe_auc_benchmarks.attacks.blinded_auc.strategies import STRATEGIES, Tell
from fhe_auc_benchmarks.attacks.laboratory import HARMLESS, PASSED, SITES, LyingSide, answering, known, made_up_sites
from fhe_auc_benchmarks.attacks.simulated import HARM
from fhe_auc_keys.roles.sealed import SealedAggregator
from fhe_auc_protocols.blinded_auc.blinded_plan import AucPlan
from fhe_auc_protocols.blinded_auc.blinded_protocol import BlindedAuc, trapezoid_computation
from fhe_auc_protocols.blinded_auc.malicious import Malicious
from fhe_auc_protocols.blinded_auc.semi_honest import SemiHonest

PROTOCOLS: dict[str, type[BlindedAuc]] = {"semi-honest": SemiHonest, "malicious": Malicious}
_GRID = thresholds.uniform(16)
_CHANGES = {"semi-honest": (0.1, 0.12), "malicious": (0.002, 0.02)}
"""Relative: what rounding leaves to be seen; and what does harm, of which the least is the likeliest to pass."""
_SHOWN_CHANGE = 0.07


def lying_side(
    manifest: Manifest,
    material: bytes,
    tell: Tell,
    generator: np.random.Generator,
    *,
    rows: int,
    change: float = _SHOWN_CHANGE,
) -> LyingSide:
    """Return what an aggregator sends that plays a strategy; `change` and `rows` are those of the `BlindedView`."""
    computation, plan = trapezoid_computation(manifest), manifest.decoded_plan(AucPlan)
    context = computation.keys(material)

    def made(sent: Mapping[str, bytes], counted: tuple[str, ...]) -> bytes:
        submissions = {
            party: [context.read_submission(block) for block in decode(blocks, tuple[bytes, ...], "submission")]
            for party, blocks in sent.items()
        }
        return encode(Result(counted, tell(BlindedView(context, plan, submissions, generator, rows, change))))

    total, limit = computation.running_sum(context), computation.payload_limit
    return LyingSide(SealedAggregator(total, bytes, limit, echo=plan.split), 1, made)


class BlindedAucAttacks(Attacks):
    """Strategies against ``semi-honest`` and ``malicious``, to be seen: they change more than they need."""

    descriptions: ClassVar[Mapping[str, str]] = {name: strategy.what for name, strategy in STRATEGIES.items()}

    def aggregator(self, attack: str, manifest: Manifest, material: bytes, *, rows: int) -> Aggregator:
        """Return an aggregator that plays a strategy; raise `InputError` for another name."""
        known(attack, STRATEGIES)
        generator, tell = np.random.default_rng(0), STRATEGIES[attack].tell
        return Aggregator(manifest, lying_side(manifest, material, tell, generator, rows=rows))


def play(tell: Tell, protocol: str, generator: np.random.Generator) -> str:
    """Play a session with rows of its own in which the aggregator tells a lie; return what the first party makes of it.

    That is `PASSED` where it accepts a wrong AUC, `HARMLESS`, or the check that refuses; "message" for what does not
    get as far as a check. `semi-honest` rounds: there half a unit in the last place is right.
    """
    plugin, sites = PROTOCOLS[protocol](), made_up_sites(generator)
    session = plugin.prepare(Request(parties=SITES, thresholds=_GRID))
    manifest, delivery = session.manifest, session.delivery()
    rows, change = sum(data.rows for data in sites), float(np.exp(generator.uniform(*np.log(_CHANGES[protocol]))))
    side = lying_side(manifest, delivery.aggregator, tell, generator, rows=rows, change=change)
    roles = [plugin.party(manifest, delivery.parties[data.name], data) for data in sites]
    aggregator = Aggregator(manifest, side)
    first, *others = (count(data, _GRID) for data in sites)
    try:
        conduct(aggregator, answering(aggregator, roles))
        found = roles[0].result()
    except (DeserialisationError, MessageError):
        return "message"
    slack = HARM if found.decimals is None else 0.5 * 10**-found.decimals + 1e-9
    return PASSED if abs(found.auc - trapezoid(sum(others, start=first)).auc) >= slack else HARMLESS
