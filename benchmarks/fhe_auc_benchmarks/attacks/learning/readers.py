"""Readers: they follow every step of a session, and look for secrets in all bytes that lie anywhere or travel.

The session is one between machines: key stores, journal, and the files of an exchange folder. Nobody lies. A reader
has no key at all; or it is one role, which opens its own store, and what is sealed to it. Secrets are looked for as
integers of two to eight bytes, MessagePack, JSON, floats, and residues as submissions pack them.
"""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import FheAucError, MessageError
from fhe_auc.base.party_names import AGGREGATOR, HELPER
from fhe_auc.base.serialise import decode, encode
from fhe_auc.machines.site_state import site_storage
from fhe_auc.rows.counts import count
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.messages import Message
from fhe_auc.sums.residues import pack
from fhe_auc_benchmarks.attacks.exact_auc.ciphertexts import GRID
from fhe_auc_benchmarks.attacks.laboratory import SITES, made_up_sites
from fhe_auc_benchmarks.attacks.learning.learned import Learned, LearningAttack
from fhe_auc_benchmarks.attacks.learning.nights import OPTIONS, Night
from fhe_auc_keys.bundles.session_keys import SEED_BYTES
from fhe_auc_keys.roles.helper_opening import _BLOB, OPEN, Blobs, HelpedSubmission
from fhe_auc_keys.store.key_store import Kind
from fhe_auc_keys.store.vault import certified_identity
from fhe_auc_keys.trust.identity import signed_bytes

OUTSIDE = "nobody"
ON: Mapping[str, tuple[str, ...]] = {
    "sealed": ("semi-honest", "malicious", "exact", "verified", "histogram-federated", *OPTIONS),
    "helper": ("exact", "verified", "histogram-federated", "histogram-distributed-dp"),
}
_CAP = 90
_POOL = "the pool"
_LONGEST = 2**30
_PART = 24  # bytes that are looked for of what is long
_NUMBERS = [f"{order}{kind}" for order in "<>" for kind in ("u2", "u4", "u8", "f4", "f8")]


class Secret(NamedTuple):
    """What nobody else may read than those who know it; `forms` are bytes in which it may stand."""

    value: object
    known_to: frozenset[str]
    forms: frozenset[bytes]


def forms_of(counts: NDArray[np.int64], primes: Iterable[int] = ()) -> frozenset[bytes]:
    """Return the bytes as which counts, shape (bins,), may stand somewhere; `primes` are those of packed residues."""
    packed = {counts.astype(kind).tobytes() for kind in _NUMBERS}
    packed |= {pack(counts.astype(np.uint64), prime) for prime in primes}
    for numbers in (counts.tolist(), counts.astype(float).tolist()):
        packed |= {encode(numbers)[1:], *(between.join(map(str, numbers)).encode() for between in (",", ", "))}
    return frozenset(packed)


def of_bytes(secret: bytes, *known_to: str) -> Secret:
    """Return a key, or what else has no other form than its bytes."""
    texts = secret.hex().encode(), base64.b64encode(secret).rstrip(b"=")
    return Secret(secret.hex(), frozenset(known_to), frozenset({secret, *texts}))


def found_in(seen: Iterable[bytes], secrets: Mapping[str, Secret], reader: str = OUTSIDE) -> Learned:
    """Return which secrets stand in what a reader has seen, of those that it does not know."""
    everything = b"\n".join(seen)
    theirs = {name: each for name, each in secrets.items() if reader not in each.known_to}
    read = {name: each.value for name, each in theirs.items() if any(form in everything for form in each.forms)}
    return Learned(read, {name: each.value for name, each in theirs.items()})


class Watched(Night):
    """A session that is watched: what each reader has `seen`, by its role, and all `secrets`."""

    def __init__(self, protocol: str, keys: str, sites: Sequence[PartyData], folder: Path) -> None:
        proofs = keys == "helper" and protocol in ("exact", "verified")
        super().__init__(protocol, keys, sites, folder, row_caps=_CAP if proofs else None)
        self.seen = {role: set[bytes]() for role in (OUTSIDE, AGGREGATOR, *self.manifest.answering)}
        self._protections: dict[str, Any] = {AGGREGATOR: self.aggregator.protection}
        for role in self.manifest.answering:
            with site_storage().site(self.machines.configured[role]) as site:
                self._protections[role] = site.session(self.manifest.session).protection
        self.secrets = dict(self._counts())
        for name in self.sites if hasattr(self.session, "secrets_of") else ():
            own = self.session.secrets_of(name)
            self._hide("the common secret", own.common_secret, *self.sites)
            self._hide(f"seed of {name}", own.seed, name)
        if hasattr(self.session, "seeds"):  # sites have the key under which it is
            self._hide("the opening of the pads", self.session.aggregator_material[-_PART:], AGGREGATOR)
        self.play()
        self._look()

    def sent(self, data: bytes, recipient: str) -> None:
        """Look at all files; have those open a message whom it is for, and learn from it what is secret."""
        self._look()
        message = Message.from_bytes(data, limit=_LONGEST)
        for role, protection in self._protections.items():
            if protection is not None and recipient in ("", role):
                with suppress(MessageError):  # what is for all is not sealed
                    opened = message.opened(protection, role)
                    self.seen[role].add(opened)
                    self._hide_drawn(message, opened)

    def _hide_drawn(self, message: Message, opened: bytes) -> None:
        """Note what roles make on the way: submissions; with a helper seeds, the query's key, answers about proofs."""
        helped, sent = self.manifest.keys == "helper", opened
        if message.round == 1 and helped:
            sent, *_ = (submission := decode(opened, HelpedSubmission, "submission")).parts
            (blob,) = submission.blobs
            about = signed_bytes(_BLOB, encode((self.manifest.digest, message.sender)))
            with self.machines.store(HELPER) as store:
                identity = certified_identity(store)
            seed = identity.unseal(blob, info=about)[:SEED_BYTES]
            self._hide(f"seed of {message.sender}", seed, message.sender, HELPER)
        if message.round == 1:  # with a key, or the pad, it tells counts
            middle = sent[len(sent) // 2 :][:_PART]
            self._hide(f"what {message.sender} has sent", middle, message.sender, AGGREGATOR)
        elif helped and message.round == OPEN and message.sender == AGGREGATOR:
            asked = decode(opened, Blobs, "list of blobs")
            self._hide("key of the query", asked.key, AGGREGATOR, HELPER)
            for each in asked.signed:
                self._hide(f"answers about {each.party}", each.answers, AGGREGATOR, HELPER)

    def _hide(self, name: str, secret: bytes, *known_to: str) -> None:
        if secret:
            self.secrets[name] = of_bytes(secret, *known_to)

    def _counts(self) -> Iterator[tuple[str, Secret]]:
        primes = getattr(getattr(self.plan, "parameters", None), "plain_moduli", ())
        counted = {name: count(each, GRID) for name, each in self.sites.items()}
        first, *others = counted.values()
        for name, each in {**counted, _POOL: sum(others, first)}.items():
            sides = {"negatives": (each.bin_negatives, each.fp), "positives": (each.bin_positives, each.tp)}
            for label, both in sides.items():
                forms = frozenset[bytes]().union(*(forms_of(own, primes) for own in both))
                yield f"{label} of {name}", Secret(both[0].tolist(), frozenset({name}), forms)

    def _look(self) -> None:
        self.seen[OUTSIDE] |= {each.read_bytes() for each in self.folder.rglob("*") if each.is_file()}
        for role in {*self.seen} - {OUTSIDE}:
            with self.machines.store(role) as store:
                self.seen[role] |= {store.get(kind, each) for kind in get_args(Kind) for each in store.names(kind)}


@lru_cache(maxsize=8)
def watched(protocol: str, keys: str, seed: int) -> tuple[dict[str, set[bytes]], dict[str, Secret]]:
    """Return what readers have seen of a session, by role, and its secrets; the same ones when asked again."""
    with tempfile.TemporaryDirectory() as place:
        try:
            made = Watched(protocol, keys, made_up_sites(np.random.default_rng(seed)), Path(place))
        except FheAucError as error:  # would pass for "learns nothing"
            raise RuntimeError(f"a session in which nobody lies has failed: {error}") from error
    return {role: made.seen[OUTSIDE] | own for role, own in made.seen.items()}, made.secrets


def _read(reader: str, protocol: str, keys: str, generator: np.random.Generator) -> Learned:
    """All readers of a trial look at one session."""
    seen, secrets = watched(protocol, keys, int(generator.integers(2**31)))
    promised = reader in SITES and protocol == "histogram-federated"
    names = [f"{label} of {_POOL}" for label in ("negatives", "positives")] if promised else []
    return found_in(seen[reader], secrets, reader)._replace(promised=tuple(names))


_ALL = "read every folder, journal and message"
_AND_ITS_OWN = f"{_ALL}, and its own store"
READERS = {
    "read-outside": LearningAttack(f"nobody: {_ALL}", partial(_read, OUTSIDE), ON),
    "read-site": LearningAttack(f"a site: {_AND_ITS_OWN}", partial(_read, SITES[0]), ON),
    "read-aggregator": LearningAttack(f"aggregator: {_AND_ITS_OWN}", partial(_read, AGGREGATOR), ON),
    "read-helper": LearningAttack(f"helper: {_AND_ITS_OWN}", partial(_read, HELPER), {"helper": ON["helper"]}),
}
"""By name."""
