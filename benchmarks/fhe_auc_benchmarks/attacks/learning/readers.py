"""Readers: they follow every step of a session, and look for secrets in all bytes that lie anywhere or travel.

Nobody lies. A reader has no key at all; or it is one role, which reads its own key store, and what is sealed to it.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.party_names import AGGREGATOR, HELPER
from fhe_auc.base.serialise import encode
from fhe_auc.input_proofs.sessions import InputProofs
from fhe_auc.machines.site_state import answer, site_storage
from fhe_auc.rows.counts import count
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.aggregator import Aggregator, conduct
from fhe_auc.session.journal import Journal
from fhe_auc.session.messages import Message
from fhe_auc.sums.residues import pack
from fhe_auc_benchmarks.attacks.exact_auc.ciphertexts import GRID, PROTOCOLS, request_for
from fhe_auc_benchmarks.attacks.laboratory import SITES, LearningAttack, made_up_sites
from fhe_auc_keys.bundles.session_keys import SEED_BYTES
from fhe_auc_keys.roles.helper_opening import OpeningHelper
from fhe_auc_keys.store.key_store import KeyStore

OUTSIDE, _POOL, _CAP = "nobody", "the pool", 90
_NOISY = (
    *("dpauc-gaussian", "dpauc-laplace", "dpauc-rr", "ustat-krr", "ustat-hierarchy"),
    *("histogram-distributed-dp", "histogram-local-dp"),
)
OTHERS = "histogram-federated", *_NOISY
ON: Mapping[str, tuple[str, ...]] = {
    "sealed": ("semi-honest", "malicious", "exact", "verified", *OTHERS),
    "helper": ("exact", "verified", "histogram-federated", "histogram-distributed-dp"),
}
_COUNTS = "bin_negatives", "bin_positives", "fp", "tp"
_NUMBERS = [f"{order}{kind}" for order in "<>" for kind in ("u1", "u2", "u4", "u8", "f4", "f8")]
Secret: TypeAlias = tuple[set[bytes], tuple[str, ...]]  # the bytes as which it may stand, and who may read it


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
def listening(owner: type, function: str, told: Callable[..., object]) -> Iterator[None]:
    """Meanwhile tell what a method returns, and what it was given."""
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
        plugin, cap = registry.load(protocol), _CAP if keys == "helper" and protocol in PROTOCOLS else None
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
            listening(Message, "opened", self._opened),
            listening(OpeningHelper, "_secret_in", self._unsealed),
            listening(InputProofs, "answers", self._answered),
        ):
            made = site_storage().local_sites(session, folder, {})
            self._configured = {**made.sites, AGGREGATOR: made.aggregator}
            aggregator = site_storage().aggregator(made.aggregator).aggregator()
            with Journal(folder / "journal") as aggregator.journal, made.meanwhile:
                aggregator.journal.bind(session.manifest.session)
                conduct(aggregator, partial(self._exchange, aggregator))
        self.look()
        for role, config in self._configured.items():
            self.seen[role] |= self.seen[config["store"]] | self.seen[OUTSIDE]

    def _exchange(self, aggregator: Aggregator, message: bytes) -> Iterator[tuple[str, bytes]]:
        for name in aggregator.asked:
            with site_storage().site(self._configured[name]) as site:
                made = answer(site, message, lambda party, analysis: self.sites[party], lambda party, records: None)
            self.seen[OUTSIDE] |= {message, made}
            self.look()
            yield name, made

    def look(self) -> None:
        """Read all files."""
        self.seen[OUTSIDE] |= {each.read_bytes() for each in self.folder.rglob("*") if each.is_file()}

    def _opened(self, payload: bytes, message: Message, protection: object, recipient: str = "") -> None:
        self.seen[recipient or OUTSIDE].add(payload)
        if message.round == 1 and message.sender in self.sites:
            some = payload[16:][:SEED_BYTES]  # with a key, or the pad, it tells counts
            self.hidden[f"what {message.sender} has sent"] = of_bytes(some, message.sender, AGGREGATOR)

    def _unsealed(self, secret: bytes, helper: object, signed: Any) -> None:
        self.hidden[f"seed of {signed.party}"] = of_bytes(secret[:SEED_BYTES], signed.party, HELPER)
        self.hidden[f"response key of {signed.party}"] = of_bytes(secret[SEED_BYTES:], signed.party, HELPER)

    def _answered(self, answers: Sequence[bytes], proofs: object, key: bytes, submitted: object) -> None:
        for name, own in zip(("key of the query", *self.sites), (key, *answers), strict=True):
            self.hidden[f"{name}, of proofs"] = of_bytes(own, AGGREGATOR, HELPER)


@lru_cache(maxsize=8)
def watched(protocol: str, keys: str, seed: int) -> Watched:
    """Return a session that has been watched; the same one when asked again."""
    with tempfile.TemporaryDirectory() as place:
        return Watched(protocol, keys, made_up_sites(np.random.default_rng(seed)), Path(place))


def _read(reader: str, protocol: str, keys: str, generator: np.random.Generator) -> tuple[set[str], set[str]]:
    """All readers of a trial look at one session."""
    session, all_told = watched(protocol, keys, int(generator.integers(2**31))), protocol == "histogram-federated"
    promised = {f"{each} of {_POOL}" for each in _COUNTS if all_told and reader in SITES}
    return found_in(session.seen[reader], session.hidden, reader), promised


_ALL = "read every folder, journal and message"
READERS = {
    "read-outside": LearningAttack(f"nobody: {_ALL}", partial(_read, OUTSIDE), ON),
    "read-site": LearningAttack(f"a site: {_ALL}, and its own store", partial(_read, SITES[0]), ON),
    "read-aggregator": LearningAttack(f"aggregator: {_ALL}, and its own store", partial(_read, AGGREGATOR), ON),
    "read-helper": LearningAttack(
        f"helper: {_ALL}, and its own store", partial(_read, HELPER), {"helper": ON["helper"]}
    ),
}
"""By name."""
