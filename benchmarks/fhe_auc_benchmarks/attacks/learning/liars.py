"""Liars who want to learn: sites, servers, and several of them together, against roles that follow the protocol.

A count is read off a sum by a weight. With X made-up positives in bin b the released Σ p_k·n_k is X·n_b and the small
rest, and D is X·(N_<b − N_>b) and the rest: whoever reads it divides by X. The rest is what caps and noise are for.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc import ckks
from fhe_auc.base.errors import EvaluationError
from fhe_auc.base.serialise import decode, encode
from fhe_auc.input_proofs.sessions import NOT_PROVED
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rows.counts import count
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.aggregator import Aggregator, conduct
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.messages import Message
from fhe_auc.session.party import Party
from fhe_auc_benchmarks.attacks.blinded_auc.aggregator_view import BlindedView
from fhe_auc_benchmarks.attacks.blinded_auc.ciphertexts import HonestParties, LyingSealedAggregator, shared_keys
from fhe_auc_benchmarks.attacks.exact_auc.ciphertexts import GRID, PROTOCOLS, lying_aggregator, request_for
from fhe_auc_benchmarks.attacks.exact_auc.lying_parties import Lie, _LyingComputation
from fhe_auc_benchmarks.attacks.exact_auc.strategies import ExactStrategy
from fhe_auc_benchmarks.attacks.laboratory import SITES, made_up_sites
from fhe_auc_benchmarks.attacks.learning.learned import Learned, LearningAttack
from fhe_auc_benchmarks.attacks.learning.nights import Night
from fhe_auc_keys.roles.helper_opening import HelpedSecrets
from fhe_auc_keys.roles.helper_roles import DECRYPT, HelpedParty, _HelpedResult
from fhe_auc_keys.roles.key_mode import read_material
from fhe_auc_protocols.blinded_auc.plan import CHECK_WEIGHT, WEIGHT
from fhe_auc_protocols.exact_auc.auc_sums import vector
from fhe_auc_protocols.exact_auc.party_task import ExactTask

_BIN = 3  # that is read
_MADE_UP = 2**15  # positives: more than all pairs of other rows in one bin
_AGAINST_NOISE = 2**22
_CAP = 90
_FEW = PartyData.from_arrays(SITES[-1], [False, True], [0.1, 0.9])
_BITS = 7  # of a count in the digits of an AUC
_DIGITS = 51  # the place of the last of them, in bits

Tell: TypeAlias = Callable[[Aggregator, str, bytes], bytes]  # what the aggregator makes of its message to a role


class _Spying(ExactTask):
    """Adds made-up positives to a bin, and keeps the integers that the site decrypts."""

    def __init__(self, manifest: Manifest, data: PartyData, made_up: int) -> None:
        super().__init__(manifest, data)
        self.made_up, self.integers = made_up, dict[str, int]()

    def sketches(self) -> list[Residues]:
        """Return the sketch with the made-up rows, for each prime."""
        found = super().sketches()
        for own, prime in zip(found, self.plan.parameters.plain_moduli, strict=True):
            place = self.plan.sums.bins + _BIN  # behind the negatives
            own[place] = (int(own[place]) + self.made_up) % prime
        return found

    def check_counts(self, encoded: Sequence[Residues]) -> None:
        """A liar does not check itself."""

    def read(self, decrypted: Sequence[Residues], counted: Sequence[str], common_secret: bytes) -> Evaluation:
        """Keep the sums; then read as everybody."""
        numbers = modular.centred(decrypted, self.plan.parameters.plain_moduli)
        names = (each.name.removesuffix(" at 0") for each in self.plan.computed.sums)
        self.integers = dict(zip(names, numbers, strict=True))
        return super().read(decrypted, counted, common_secret)


class _Played:
    """A session of `exact` or `verified`, in which the last site spies, and the aggregator may shift a bin."""

    def __init__(
        self, protocol: str, keys: str, generator: np.random.Generator, *, made_up: int | None = 0, shifted: int = 0,
        tell: Tell = lambda aggregator, name, message: message, own_caps: bool = False, **request: Any,
    ) -> None:  # fmt: skip
        self.sites = made_up_sites(generator)
        if made_up is None:  # its cap is for made-up rows
            self.sites[-1] = _FEW
        caps = {"row_caps": {each.name: each.rows for each in self.sites}} if own_caps else {}
        plugin = PROTOCOLS[protocol]()
        asked = request_for(None, **{"keys": keys, "max_rows": 2 * _MADE_UP, **caps, **request})
        session = plugin.prepare(asked)
        manifest, delivery = session.manifest, session.delivery()
        self.aggregator: Any = plugin.aggregator(manifest, delivery.aggregator)
        if shifted:
            lie = ExactStrategy("", lambda view: view.claim(view.shifted(vector(0, 0, 1), _BIN, shifted)))
            self.aggregator = lying_aggregator(manifest, delivery.aggregator, lie, generator)
        self.spy = _Spying(manifest, self.sites[-1], _CAP - _FEW.rows if made_up is None else made_up)
        material = delivery.parties[self.spy.party]
        self.roles: list[Party[Any]] = [plugin.party(manifest, delivery.parties[e.name], e) for e in self.sites[:-1]]
        if keys == "helper":
            own, false = read_material(material, HelpedSecrets), _LyingComputation(manifest, Lie(""), 0)
            self.roles += [HelpedParty(manifest, false, own, self.spy), plugin.helper(manifest, delivery.helper or b"")]
        else:
            self.roles.append(plugin.modes["sealed"].party(manifest, material, self.spy))

        def exchange(message: bytes) -> Iterator[tuple[str, bytes]]:
            for role in [each for each in self.roles if each.name in self.aggregator.asked]:
                yield role.name, role.respond(tell(self.aggregator, role.name, message))

        conduct(self.aggregator, exchange)

    @property
    def negatives(self) -> NDArray[np.int64]:
        """What is true of the pool by bin, shape (bins,), less rows that somebody has made up."""
        return np.sum([count(each, GRID).bin_negatives for each in self.sites], axis=0)  # type: ignore[no-any-return]


def _weighed(
    protocol: str, keys: str, generator: np.random.Generator, *, published: bool = False, promised: bool = True,
    **made: Any,
) -> Learned:  # fmt: skip
    """Σ p_k·n_k, as the last site decrypts it or as it is published, by the weight."""
    played = _Played(protocol, keys, generator, **made)
    ties, weight = played.spy.integers["ties"], made.get("shifted") or played.spy.made_up
    if published:
        promised, told = protocol == "exact", played.roles[0].result().estimates[0]
        ties = round(told.binning_error * 2 * told.positives * told.negatives)
    what = f"pooled negatives of bin {_BIN}"
    return Learned({what: ties // weight}, {what: int(played.negatives[_BIN])}, (what,) if promised else ())


def _against_noise(protocol: str, keys: str, generator: np.random.Generator, *, proofs: bool) -> Learned:
    """D by the weight."""
    made: dict[str, Any] = {"options": {"epsilon": 1.0}, "min_parties": 2 if keys == "helper" else None}
    played = _Played(protocol, keys, generator, made_up=_AGAINST_NOISE, own_caps=proofs, **made)
    if played.spy.party not in played.aggregator.counted:
        raise EvaluationError("the liar is left out")
    what, n = f"pooled negatives below bin {_BIN} less those above", played.negatives
    read = {what: round(played.spy.integers["D"] / _AGAINST_NOISE)}
    return Learned(read, {what: int(n[:_BIN].sum() - n[_BIN + 1 :].sum())})


def _all_but_one(protocol: str, keys: str, generator: np.random.Generator) -> Learned:
    played = _Played(protocol, keys, generator)
    result, (first, victim, last) = played.roles[0].result(), played.sites
    read, truth = {}, {}
    for value, pooled in enumerate((result.negatives, result.positives)):
        what = f"rows of {victim.name} with label {value}"
        first_has, truth[what], last_has = (int((each.labels == value).sum()) for each in (first, victim, last))
        read[what] = pooled - first_has - last_has
    return Learned(read, truth, tuple(truth))


def _in_the_digits(protocol: str, keys: str, generator: np.random.Generator) -> Learned:
    """A plaintext times one site's ciphertext goes where parties read num; den is the server's own."""
    shared = shared_keys(protocol, ckks.choose_backend(None))
    parties, bins = HonestParties(shared, generator), np.arange(2, 9)

    def lie(view: BlindedView) -> bytes:
        unit, weights = view.size / view.multiplier / WEIGHT / 2**_DIGITS, np.zeros(view.plan.positions)
        weights[bins] = unit * 2.0 ** (_BITS * np.arange(len(bins)))
        plus = np.array([[view.size / 4, view.size * (1 + 1j * CHECK_WEIGHT)]])
        return view.result({}, {1: weights}, sums=view.sums((SITES[0],)), plus=plus)

    liar = LyingSealedAggregator(parties.manifest, shared.public, lie, generator=generator, rows=parties.rows)
    number = round((parties.published(parties.play(liar)) - 0.25) * 2**_DIGITS)
    read = [number >> _BITS * place & 2**_BITS - 1 for place in range(len(bins))]
    own = parties.counts[0].bin_negatives[bins].tolist()
    # The last bins have the first digits: so many of them are read together, or not at all.
    names = {f"counts of {SITES[0]}: {last}": -last for last in range(1, len(bins) + 1)}
    told, true = ({name: tuple(each[last:]) for name, last in names.items()} for each in (read, own))
    return Learned(told, true, (*names,)[:2])


def _told_left_out(protocol: str, keys: str, generator: np.random.Generator) -> Learned:
    victim = SITES[0]

    def tell(aggregator: Aggregator, name: str, message: bytes) -> bytes:
        if aggregator.round <= DECRYPT or name != victim:
            return message
        parsed = Message.from_bytes(message, limit=len(message))
        result = decode(parsed.unsealed, _HelpedResult, "result")
        named = tuple(each for each in result.counted if each != victim)
        lie = msgspec.structs.replace(result, counted=named, unproved=(victim,))
        return msgspec.structs.replace(parsed, payload=encode(lie)).to_bytes()

    played = _Played(protocol, keys, generator, tell=tell, min_parties=2, row_caps=_CAP)
    try:
        played.roles[0].result()
    except EvaluationError as error:
        believed = {f"that {victim} believes it": NOT_PROVED in str(error)}
        return Learned(believed, dict.fromkeys(believed, True))
    return Learned({}, {})


def _two_nights(protocol: str, keys: str, generator: np.random.Generator) -> Learned:
    """All submit twice; of the second night the server says that one site did not come."""
    sites, away = made_up_sites(generator), SITES[-1]
    positives = []
    with tempfile.TemporaryDirectory() as place:
        before: Night | None = None
        for night, missing in enumerate(("", away)):
            (folder := Path(place) / str(night)).mkdir()
            before = Night(protocol, keys, sites, folder, before=before, missing=missing, min_parties=2)
            before.play()
            positives.append(before.ended[SITES[0]].result().positives)
    what = f"positives of {away}"
    return Learned({what: positives[0] - positives[1]}, {what: int(sites[-1].y_true.sum())})


_EXACT: tuple[str, ...] = "exact", "verified"
_BOTH = {"sealed": _EXACT, "helper": _EXACT}
_HELPED = {"helper": _EXACT}
_EPSILON = {"sealed": _EXACT[1:], "helper": _EXACT[1:]}
LIARS = {
    "made-up-rows": LearningAttack(
        "a site: weigh a bin by made-up rows, where no row cap is proved", partial(_weighed, made_up=_MADE_UP), _BOTH
    ),
    "made-up-rows-capped": LearningAttack(
        "a site: the same within a proved row cap",
        partial(_weighed, made_up=None, promised=False, row_caps=_CAP), _HELPED,
    ),
    "against-noise": LearningAttack(
        "a site: the same against epsilon, where no row cap is proved", partial(_against_noise, proofs=False), _EPSILON
    ),
    "against-noise-capped": LearningAttack(
        "a site: the same where row caps are proved", partial(_against_noise, proofs=True), {"helper": _EXACT[1:]}
    ),
    "all-but-one": LearningAttack("all sites but one: take their rows off the pool's", _all_but_one, _BOTH),
    "published": LearningAttack(
        "aggregator: weigh a bin of the pool, and divide what is published",
        partial(_weighed, shifted=_MADE_UP, published=True), _BOTH,
    ),
    "with-a-site": LearningAttack(
        "aggregator and a site: the same, whatever others refuse", partial(_weighed, shifted=_MADE_UP), _BOTH
    ),
    "digits": LearningAttack(
        "aggregator: put a site's counts into the digits of the AUC", _in_the_digits, {"sealed": ("semi-honest",)}
    ),
    "told-left-out": LearningAttack(
        "aggregator: tell a site that counts that it is left out", _told_left_out, _HELPED, "result"
    ),
    "two-nights": LearningAttack(
        "aggregator and a site: leave another one out of the second of two nights", _two_nights, _BOTH
    ),
}  # fmt: skip
"""By name."""
