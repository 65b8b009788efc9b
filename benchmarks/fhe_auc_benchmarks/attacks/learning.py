"""Attacks that learn secrets, such as counts and keys.

Readers look at every step of a session in which nobody lies: without any key, or as one role that has its key store and
opens what is sealed to it. Liars put many positives into a bin. These weigh its negatives in the ties, Σ p_k·n_k, and
whoever is told the ties divides by the weight.
"""

from __future__ import annotations

import secrets
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import FheAucError
from fhe_auc.base.names import AGGREGATOR, HELPER
from fhe_auc.base.serialise import encode
from fhe_auc.input_proofs.sessions import InputProofs
from fhe_auc.machines.answers import answer
from fhe_auc.machines.site_state import site_storage
from fhe_auc.rows.counts import count
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.aggregator import Aggregator, conduct
from fhe_auc.session.journal import Journal
from fhe_auc.session.messages import Message
from fhe_auc.sums.pads import pack
from fhe_auc_benchmarks.attacks.exact_auc.ciphertexts import GRID, ExactAucAttacks, answering, request_for
from fhe_auc_benchmarks.attacks.exact_auc.strategies import BIN, WEIGHT
from fhe_auc_benchmarks.attacks.laboratory import SITES, made_up_sites
from fhe_auc_keys.bundles.session_keys import SEED_BYTES
from fhe_auc_keys.fleet.simulation import simulate
from fhe_auc_keys.fleet.tasks import Workers
from fhe_auc_keys.roles.helper import Helper
from fhe_auc_keys.store.key_store import KeyStore

OUTSIDE, _POOL, _CAP = "nobody", "the pool", 90
_PIECE, _LONGEST = 4096, 1024  # bytes of a file; and of a secret, which must stand whole in a piece
_COUNTS = "bin_negatives", "bin_positives", "fp", "tp"
_NUMBERS = [f"{order}{kind}" for order in "<>" for kind in ("u1", "u2", "u4", "u8", "f4", "f8")]
_EXACT = "exact", "verified"
_NOISY = (
    *("dpauc-gaussian", "dpauc-laplace", "dpauc-rr", "ustat-krr", "ustat-hierarchy"),
    *("histogram-distributed-dp", "histogram-local-dp"),
)
_TOLD = "histogram-federated", "counts-federated"  # to each site, the pooled counts
OTHERS = *_TOLD, *_NOISY

Secret: TypeAlias = tuple[set[bytes], tuple[str, ...]]  # the bytes as which it may stand, and who may read it
Learned: TypeAlias = tuple[set[str], set[str]]  # names of secrets that an attack says exactly, and of what is promised


class LearningAttack(NamedTuple):
    """One way to learn: who does what, on which protocols, by kind of keys.

    `play` takes a protocol, a kind of keys and a generator; it raises the `FheAucError` with which honest roles refuse.
    """

    description: str
    play: Callable[[str, str, np.random.Generator], Learned]
    on: Mapping[str, tuple[str, ...]]

    def run(self, protocol: str, keys: str, trials: int, seed: int) -> dict[str, dict[str, int]]:
        """Return in how many trials each secret was `read`, or read `beyond` promises, and which errors `refused`."""
        read, beyond, refused = Counter[str](), Counter[str](), Counter[str]()
        for trial in range(trials):
            try:
                told, promised = self.play(protocol, keys, np.random.default_rng([seed, trial]))
                read.update(told)
                beyond.update(told - promised)
            except FheAucError as error:
                refused[type(error).__name__] += 1
        return {"read": dict(read), "beyond": dict(beyond), "refused": dict(refused)}


def of_counts(counts: NDArray[np.int64], primes: Iterable[int], *known_to: str) -> Secret:
    """Return counts: as numbers, residues, MessagePack or JSON."""
    forms = {counts.astype(kind).tobytes() for kind in _NUMBERS} | {encode(counts.tolist())[1:]}
    forms |= {pack(counts.astype(np.uint64), prime) for prime in primes}
    return forms | {each.join(map(str, counts.tolist())).encode() for each in (",", ", ")}, known_to


def of_bytes(secret: bytes, *known_to: str) -> Secret:
    """Return a key, or what else is bytes."""
    return {secret, secret.hex().encode()} - {b""}, known_to


def found_in(seen: Iterable[bytes], hidden: Mapping[str, Secret], reader: str) -> set[str]:
    """Return which secrets stand in what a reader has seen, of those that it may not read."""
    everything = b"\n".join(seen)
    theirs = {name: forms for name, (forms, known_to) in hidden.items() if reader not in known_to}
    return {name for name, forms in theirs.items() if any(form in everything for form in forms)}


@contextmanager
def listening(owner: Any, function: str, told: Callable[..., object]) -> Iterator[None]:
    """Meanwhile tell what a function returns, and what it was given."""
    true = getattr(owner, function)

    def heard(*given: Any, **named: Any) -> Any:
        found = true(*given, **named)
        told(found, *given)
        return found

    setattr(owner, function, heard)
    try:
        yield
    finally:
        setattr(owner, function, true)


class Watched:
    """A session between machines, all on this one: what each reader has `seen`, by its role, and what is `hidden`."""

    def __init__(self, protocol: str, keys: str, sites: Sequence[PartyData], folder: Path) -> None:
        self.folder, self.sites, self.hidden = folder, {each.name: each for each in sites}, dict[str, Secret]()
        self.seen = defaultdict[str, set[bytes]](set)
        plugin, cap = registry.load(protocol), _CAP if keys == "helper" and protocol in _EXACT else None
        options = {"epsilon": 1.0} if protocol in _NOISY else {}
        options |= {"delta": 1e-5} if protocol == "dpauc-gaussian" else {}
        session: Any = plugin.prepare(request_for(None, keys=keys, row_caps=cap, options=options))
        primes = getattr(getattr(plugin.plan_of(session.manifest), "parameters", None), "plain_moduli", ())
        counted = {each.name: count(each, GRID) for each in sites}
        counted[_POOL] = sum([*counted.values()][1:], counted[sites[0].name])
        for name, own in counted.items():
            self.hidden |= {f"{each} of {name}": of_counts(getattr(own, each), primes, name) for each in _COUNTS}
        for name in self.sites if hasattr(session, "secrets_of") else ():
            self.hidden[f"seed of {name}"] = of_bytes(session.secrets_of(name).seed, name)
            self.hidden["the common secret"] = of_bytes(session.secrets_of(name).common_secret, *self.sites)
        with (
            listening(KeyStore, "put", lambda none, store, kind, name, data: self.seen[str(store.directory)].add(data)),
            listening(Message, "unseal", self._opened),
            listening(Helper, "secret_in", self._unsealed),
            listening(InputProofs, "answers", self._answered),
        ):
            made = site_storage().local_sites(session, folder)
            self._configured = {**made.sites, AGGREGATOR: made.aggregator}
            aggregator = site_storage().aggregator(made.aggregator).aggregator()
            with Journal(folder / "journal") as aggregator.journal:
                aggregator.journal.bind(session.manifest.session)
                conduct(aggregator, partial(self._exchange, aggregator))
        self.look()
        for role, config in self._configured.items():
            self.seen[role] |= self.seen.pop(config["store"], set()) | self.seen[OUTSIDE]

    def _exchange(self, aggregator: Aggregator, message: bytes) -> Iterator[tuple[str, bytes]]:
        for name in aggregator.asked:
            with site_storage().site(self._configured[name]) as site:
                made = answer(site, message, lambda party, analysis: self.sites[party], lambda party, records: None)
            self.look(message, made)
            yield name, made

    def look(self, *sent: bytes) -> None:
        """Read what is sent, and all files: by pieces, as most of a file that grows is known."""
        self.seen[OUTSIDE] |= {*sent}
        for data in (each.read_bytes() for each in self.folder.rglob("*") if each.is_file()):
            self.seen[OUTSIDE] |= {data[start : start + _PIECE + _LONGEST] for start in range(0, len(data), _PIECE)}

    def _opened(self, payload: bytes, message: Message, protection: object, recipient: str = "") -> None:
        self.seen[recipient or OUTSIDE].add(payload)
        if message.round == 1 and message.sender in self.sites:
            some = payload[16:][:SEED_BYTES]  # with a key, or the pad, it tells counts
            self.hidden[f"what {message.sender} has sent"] = of_bytes(some, message.sender, AGGREGATOR)

    def _unsealed(self, secret: bytes, helper: object, signed: Any) -> None:
        self.hidden[f"seed of {signed.party}"] = of_bytes(secret[:SEED_BYTES], signed.party, HELPER)
        self.hidden[f"response key of {signed.party}"] = of_bytes(secret[SEED_BYTES:], signed.party, HELPER)

    def _answered(self, answers: Sequence[bytes], proofs: object, key: bytes, submitted: object) -> None:
        self.hidden["key of the query"] = of_bytes(key, AGGREGATOR, HELPER)
        for name, own in zip(self.sites, answers, strict=True):
            self.hidden[f"answers about {name}"] = of_bytes(own, AGGREGATOR, HELPER)


def _read(protocol: str, keys: str, generator: np.random.Generator) -> Learned:
    with tempfile.TemporaryDirectory() as place:
        made, read = Watched(protocol, keys, made_up_sites(generator), Path(place)), set[str]()
    public = found_in(made.seen[OUTSIDE], made.hidden, OUTSIDE)  # looked for once: it is the most, and all have it
    for reader, seen in made.seen.items():
        found = found_in(seen - made.seen[OUTSIDE], made.hidden, reader)
        read |= {f"{name}, by {reader}" for name in found | {n for n in public if reader not in made.hidden[n][1]}}
    all_told = made.sites if protocol in _TOLD else ()
    return read, {f"{each} of {_POOL}, by {site}" for each in _COUNTS for site in all_told}


def _read_fleet(protocol: str, keys: str, generator: np.random.Generator) -> Learned:
    """Every key that anybody draws is secret, and what the aggregator says of proofs."""
    drawn = list[bytes]()
    with (
        tempfile.TemporaryDirectory() as place,
        listening(secrets, "token_bytes", lambda found, size: drawn.append(found)),
        listening(InputProofs, "answers", lambda found, proofs, key, submitted: drawn.extend((key, *found))),
    ):
        simulate(8, GRID, Path(place), Workers(), proofs=True, progress=lambda *told: None)
        seen = [each.read_bytes() for each in Path(place).rglob("*") if each.is_file()]
    hidden = {f"key or answer {k}": of_bytes(each) for k, each in enumerate(drawn) if len(each) >= SEED_BYTES}
    return found_in(seen, hidden, OUTSIDE), set()


def _weigh(
    protocol: str, keys: str, generator: np.random.Generator, *, made_up: int = 0, promised: tuple[str, ...] = (),
    **request: Any,
) -> Learned:  # fmt: skip
    """The last site has so many `made_up` rows; without them the aggregator adds the weight."""
    sites, plugin, weight = made_up_sites(generator), registry.load(protocol), made_up or WEIGHT
    if made_up:
        sites[-1] = PartyData.from_arrays(SITES[-1], np.ones(made_up), np.full(made_up, GRID[BIN]))
    session = plugin.prepare(request_for(None, keys=keys, max_rows=2 * WEIGHT, **request))
    manifest, delivery = session.manifest, session.delivery()
    lying = partial(ExactAucAttacks().aggregator, "add-many", rows=weight)
    aggregator = (plugin.aggregator if made_up else lying)(manifest, delivery.aggregator)
    roles = [plugin.party(manifest, delivery.parties[each.name], each) for each in sites]
    roles += [plugin.helper(manifest, delivery.helper)] if delivery.helper else []
    conduct(aggregator, answering(aggregator, roles))
    told: Any = roles[0].result()
    ties = round(told.binning_error * 2 * told.positives * told.negatives)
    true = sum(int(count(each, GRID).bin_negatives[BIN]) for each in sites)
    what = {f"pooled negatives of bin {BIN}"}
    return what if ties // weight == true else set(), what if protocol in promised else set()


_BOTH = {"sealed": _EXACT, "helper": _EXACT}
ATTACKS = {
    "read-all": LearningAttack(
        "nobody, and each role alone: read every folder, journal and message, and its own key store", _read,
        {"sealed": ("semi-honest", "malicious", *_EXACT, *OTHERS), "helper": (*_EXACT, *_TOLD, _NOISY[5])},
    ),
    "read-fleet": LearningAttack("nobody: read every file of a fleet", _read_fleet, {"helper": ("exact",)}),
    "made-up-rows": LearningAttack(
        "a site: make up rows in a bin, to weigh others'", partial(_weigh, made_up=WEIGHT, promised=_EXACT), _BOTH
    ),
    "made-up-rows-capped": LearningAttack(
        "a site: the same within a proved row cap", partial(_weigh, made_up=_CAP, row_caps=_CAP), {"helper": _EXACT}
    ),
    "against-noise": LearningAttack(
        "a site: the same against epsilon, where no row cap is proved",
        partial(_weigh, made_up=WEIGHT, options={"epsilon": 1.0}), dict.fromkeys(_BOTH, _EXACT[1:]),
    ),
    "added-rows": LearningAttack(
        "aggregator: add rows to a bin, and look at what is published", partial(_weigh, promised=_EXACT[:1]), _BOTH
    ),
}  # fmt: skip
