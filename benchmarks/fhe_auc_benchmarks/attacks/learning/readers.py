"""Readers: they follow every step of a session, and look for secrets in all bytes that lie anywhere or travel.

Nobody lies. A reader has no key at all; or it is one role, which opens its own key store, and what is sealed to it.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import pyarrow.parquet as pq

from fhe_auc.base.errors import FheAucError
from fhe_auc.base.party_names import AGGREGATOR, HELPER
from fhe_auc.base.serialise import encode
from fhe_auc.input_proofs.sessions import InputProofs
from fhe_auc.machines.site_state import answer, site_storage
from fhe_auc.rows.counts import Counts, count
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.aggregator import Aggregator, conduct
from fhe_auc.session.journal import Journal
from fhe_auc.session.messages import Message
from fhe_auc.sums.residues import pack
from fhe_auc_benchmarks.attacks.exact_auc.ciphertexts import GRID, PROTOCOLS, request_for
from fhe_auc_benchmarks.attacks.laboratory import SITES, made_up_sites
from fhe_auc_benchmarks.attacks.learning.learned import Learned, LearningAttack
from fhe_auc_keys.bundles.session_keys import SEED_BYTES
from fhe_auc_keys.fleet import simulation
from fhe_auc_keys.fleet.tasks import Workers
from fhe_auc_keys.roles.helper_opening import OpeningHelper, _SignedBlob
from fhe_auc_keys.store.key_store import Kind
from fhe_auc_keys.store.vault import Vault

OUTSIDE = "nobody"
OTHERS = (
    *("histogram-federated", "histogram-distributed-dp", "histogram-local-dp"),
    *("dpauc-gaussian", "dpauc-laplace", "dpauc-rr", "ustat-krr", "ustat-hierarchy"),
)
ON: Mapping[str, tuple[str, ...]] = {
    "sealed": ("semi-honest", "malicious", "exact", "verified", *OTHERS),
    "helper": ("exact", "verified", *OTHERS[:2]),
}
_CAP = 90
_DEVICES = 8
_POOL = "the pool"
_NUMBERS = [f"{order}{kind}" for order in "<>" for kind in ("u1", "u2", "u4", "u8", "f4", "f8")]


class Secret(NamedTuple):
    """The bytes as which a secret may stand somewhere, and the roles that may read it."""

    forms: frozenset[bytes]
    known_to: tuple[str, ...] = ()


def of_bytes(secret: bytes, *known_to: str) -> Secret:
    """Return a key, or what else is bytes."""
    return Secret(frozenset({secret, secret.hex().encode()}), known_to)


def of_counts(who: str, counts: Counts, primes: Sequence[int] = ()) -> Iterator[tuple[str, Secret]]:
    """Yield the counts of a site by bin, and above thresholds; `primes` are those of packed residues."""
    sides = {"negatives": (counts.bin_negatives, counts.fp), "positives": (counts.bin_positives, counts.tp)}
    for label, vectors in sides.items():
        forms = set[bytes]()
        for own in vectors:
            forms |= {own.astype(kind).tobytes() for kind in _NUMBERS}
            forms |= {pack(own.astype(np.uint64), prime) for prime in primes}
            forms |= {between.join(map(str, own.tolist())).encode() for between in (",", ", ")}
            forms.add(encode(own.tolist())[1:])
        yield f"{label} of {who}", Secret(frozenset(forms), (who,))


def found_in(seen: Iterable[bytes], hidden: Mapping[str, Secret], reader: str = OUTSIDE) -> Learned:
    """Return which secrets stand in what a reader has seen, of those that it may not read."""
    everything = b"\n".join(seen)
    theirs = {name: each.forms for name, each in hidden.items() if reader not in each.known_to}
    read = {name: True for name, forms in theirs.items() if any(form in everything for form in forms)}
    return Learned(read, dict.fromkeys(theirs, True))


@contextmanager
def listening(owner: Any, function: str, told: Callable[..., object]) -> Iterator[None]:
    """Meanwhile tell what a function returns, and what it was given."""
    true = getattr(owner, function)

    def heard(*given: Any) -> Any:
        found = true(*given)
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
        self.folder, self._sites, plugin = folder, {each.name: each for each in sites}, registry.load(protocol)
        proofs = keys == "helper" and protocol in PROTOCOLS
        options = {"epsilon": 1.0, "delta": 1e-5} if protocol in OTHERS[1:] else {}
        session: Any = plugin.prepare(
            request_for(None, keys=keys, row_caps=_CAP if proofs else None, options=options)
        )
        counted = {each.name: count(each, GRID) for each in sites}
        counted[_POOL] = sum([*counted.values()][1:], counted[sites[0].name])
        primes = getattr(getattr(plugin.plan_of(session.manifest), "parameters", None), "plain_moduli", ())
        self.hidden = dict(pair for name, own in counted.items() for pair in of_counts(name, own, primes))
        for name in self._sites if hasattr(session, "secrets_of") else ():
            own = session.secrets_of(name)
            self._hide("the common secret", own.common_secret, *self._sites)
            self._hide(f"seed of {name}", own.seed, name)
        made = site_storage().local_sites(session, folder, {})
        self._configured = {**made.sites, AGGREGATOR: made.aggregator}
        self.seen = {role: set[bytes]() for role in (OUTSIDE, *self._configured)}
        aggregator = site_storage().aggregator(made.aggregator).aggregator()
        with (
            listening(Message, "opened", self._opened),
            listening(OpeningHelper, "_secret_in", self._unsealed),
            listening(InputProofs, "answers", self._asked),
            Journal(folder / "journal") as aggregator.journal,
            made.meanwhile,
        ):
            aggregator.journal.bind(aggregator.manifest.session)
            conduct(aggregator, partial(self._exchange, aggregator))
        self.look()

    def _exchange(self, aggregator: Aggregator, message: bytes) -> Iterator[tuple[str, bytes]]:
        self.seen[OUTSIDE].add(message)
        for name in aggregator.asked:
            with site_storage().site(self._configured[name]) as site:
                made = answer(site, message, lambda party, _: self._sites[party], lambda party, records: None)
            self.seen[OUTSIDE].add(made)
            self.look()
            yield name, made

    def look(self) -> None:
        """Read all files, and each role its own key store."""
        self.seen[OUTSIDE] |= {each.read_bytes() for each in self.folder.rglob("*") if each.is_file()}
        for role, config in self._configured.items():
            with Vault(Path(config["store"]), Path(config["passphrase-file"])).open() as store:
                self.seen[role] |= {store.get(kind, each) for kind in get_args(Kind) for each in store.names(kind)}

    def _hide(self, name: str, secret: bytes, *known_to: str) -> None:
        if secret:
            self.hidden[name] = of_bytes(secret, *known_to)

    def _opened(self, payload: bytes, message: Message, protection: object, recipient: str = "") -> None:
        if recipient:
            self.seen[recipient].add(payload)
        if message.round == 1 and message.sender in self._sites:
            middle = payload[len(payload) // 2 :][:SEED_BYTES]  # with a key, or the pad, it tells counts
            self._hide(f"what {message.sender} has sent", middle, message.sender, AGGREGATOR)

    def _unsealed(self, secret: bytes, helper: OpeningHelper, signed: _SignedBlob) -> None:
        for what, own in (("seed", secret[:SEED_BYTES]), ("response key", secret[SEED_BYTES:])):
            self._hide(f"{what} of {signed.party}", own, signed.party, HELPER)

    def _asked(self, answers: Sequence[bytes], proofs: InputProofs, key: bytes, submitted: object) -> None:
        for name, each in {"key of the query": key, **dict(zip(map("answers about {}".format, self._sites), answers))}:
            self._hide(name, each, AGGREGATOR, HELPER)


@lru_cache(maxsize=8)
def watched(protocol: str, keys: str, seed: int) -> Watched:
    """Return a session that has been watched; the same one when asked again."""
    with tempfile.TemporaryDirectory() as place:
        try:
            return Watched(protocol, keys, made_up_sites(np.random.default_rng(seed)), Path(place))
        except FheAucError as error:  # would pass for "learns nothing"
            raise RuntimeError(f"a session in which nobody lies has failed: {error}") from error


def _read(reader: str, protocol: str, keys: str, generator: np.random.Generator) -> Learned:
    """All readers of a trial look at one session."""
    session = watched(protocol, keys, int(generator.integers(2**31)))
    promised = reader in SITES and protocol == "histogram-federated"
    names = (f"negatives of {_POOL}", f"positives of {_POOL}") if promised else ()
    return found_in(session.seen[OUTSIDE] | session.seen[reader], session.hidden, reader)._replace(promised=names)


def _read_fleet(protocol: str, keys: str, generator: np.random.Generator) -> Learned:
    """Every random key is secret, what the aggregator says of proofs, and the pool's counts."""
    drawn, counted, seen = list[bytes](), list[Counts](), list[bytes]()
    with (
        tempfile.TemporaryDirectory() as place,
        listening(secrets, "token_bytes", lambda made, size: drawn.append(made)),
        listening(InputProofs, "answers", lambda answers, proofs, key, submitted: drawn.extend([key, *answers])),
        listening(simulation, "count", lambda counts, *given: counted.append(counts)),
    ):
        simulation.simulate(_DEVICES, GRID, Path(place), Workers(), proofs=True, progress=lambda *told: None)
        for file in [each for each in Path(place).rglob("*") if each.is_file()]:
            seen.append(file.read_bytes())
            cells = pq.read_table(file).to_pylist() if file.suffix == ".parquet" else ()
            seen += [cell for row in cells for cell in row.values() if isinstance(cell, bytes)]
    hidden = {f"key or answer {number}": of_bytes(each) for number, each in enumerate(drawn) if len(each) >= SEED_BYTES}
    return found_in(seen, hidden | dict(of_counts(_POOL, counted[0])))


_ALL = "read every folder, journal and message"
_AND_ITS_OWN = f"{_ALL}, and its own store"
READERS = {
    "read-outside": LearningAttack(f"nobody: {_ALL}", partial(_read, OUTSIDE), ON),
    "read-site": LearningAttack(f"a site: {_AND_ITS_OWN}", partial(_read, SITES[0]), ON),
    "read-aggregator": LearningAttack(f"aggregator: {_AND_ITS_OWN}", partial(_read, AGGREGATOR), ON),
    "read-helper": LearningAttack(f"helper: {_AND_ITS_OWN}", partial(_read, HELPER), {"helper": ON["helper"]}),
    "read-fleet": LearningAttack("nobody: read every file of a fleet's session", _read_fleet, {"helper": ("exact",)}),
}
"""By name."""
