"""Who reads every byte of a session, or lies to be told more, learns what is promised and no more.

Readers look at every step of a session in which nobody lies: without any key, or as one role that has its key store and
opens what is sealed to it. Liars put many positives into a bin. These weigh its negatives in the ties, Σ p_k·n_k, and
whoever is told the ties divides by the weight.
"""

import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError, VerificationError
from fhe_auc.base.names import AGGREGATOR, HELPER
from fhe_auc.base.serialise import encode
from fhe_auc.input_proofs.sessions import InputProofs
from fhe_auc.machines.answers import answer
from fhe_auc.machines.site_state import site_storage
from fhe_auc.question.analysis import PLAIN, Analysis
from fhe_auc.question.follow_up import FollowUp
from fhe_auc.rlwe.modular import residues
from fhe_auc.rlwe.packing import Octets, byte_rows, pack
from fhe_auc.rows.counts import count
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.aggregator import Aggregator, conduct
from fhe_auc.session.journal import Journal
from fhe_auc.session.messages import Message
from fhe_auc_benchmarks.attacks.exact_auc.ciphertexts import GRID, request_for
from fhe_auc_benchmarks.attacks.exact_auc.strategies import BIN, WEIGHT
from fhe_auc_benchmarks.attacks.laboratory import SITES, answering, made_up_sites
from fhe_auc_keys.bundles.session_keys import SEED_BYTES
from fhe_auc_keys.fleet import session as fleet_session
from fhe_auc_keys.fleet.simulation import simulate
from fhe_auc_keys.fleet.workers import Workers
from fhe_auc_keys.roles.helper import Helper
from fhe_auc_keys.store.key_store import KeyStore

COUNTS, PRIME = np.array([3, 0, 17, 130, 41, 5, 2, 9]), 2_199_023_288_321
OUTSIDE, POOL, CAP = "nobody", "the pool", 90
PIECE, LONGEST = 4096, 1024  # bytes of a file; and of a secret, which must stand whole in a piece
COUNTS_READ = "bin_negatives", "bin_positives", "fp", "tp"
NUMBERS = [f"{order}{kind}" for order in "<>" for kind in ("u1", "u2", "u4", "u8", "f4", "f8")]
EXACT = "exact", "verified"
NOISY = (
    *("dpauc-gaussian", "dpauc-laplace", "dpauc-rr", "ustat-krr", "ustat-hierarchy", "ustat-pairs"),
    *("histogram-distributed-dp", "histogram-local-dp"),
)
TOLD = "histogram-federated", "counts-federated"  # to each site, the pooled counts
FOR_OTHERS = "censoring-federated", "replicates-federated"
READ = {
    "sealed": ("semi-honest", "malicious", *EXACT, *TOLD, *FOR_OTHERS, *NOISY),
    "helper": (*EXACT, *TOLD, *FOR_OTHERS, "histogram-distributed-dp"),
}
FOLLOWED = Analysis(follow_up=FollowUp("days", "status", (19.0,)))

Secret: TypeAlias = tuple[set[bytes], tuple[str, ...]]  # the bytes as which it may stand, and who may read it


def of_counts(counts: NDArray[np.int64], primes: Iterable[int], *known_to: str) -> Secret:
    """Return counts: as numbers, residues, MessagePack or JSON."""
    forms = {counts.astype(kind).tobytes() for kind in NUMBERS} | {encode(counts.tolist())[1:]}
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
        plugin, cap = registry.load(protocol), CAP if keys == "helper" and protocol in EXACT else None
        options = {"epsilon": 1.0} if protocol in NOISY else {}
        options |= {"delta": 1e-5} if protocol == "dpauc-gaussian" else {}
        options |= {"replicates": 100} if protocol == "replicates-federated" else {}
        analysis = FOLLOWED if protocol == "censoring-federated" else PLAIN
        session: Any = plugin.prepare(request_for(keys=keys, row_caps=cap, options=options, analysis=analysis))
        primes = getattr(getattr(plugin.plan_of(session.manifest), "parameters", None), "plain_moduli", ())
        counted = {each.name: count(each, GRID) for each in sites}
        counted[POOL] = sum([*counted.values()][1:], counted[sites[0].name])
        for name, own in counted.items():
            self.hidden |= {f"{each} of {name}": of_counts(getattr(own, each), primes, name) for each in COUNTS_READ}
        for each in (each for each in sites if each.times is not None):
            days = each.times[each.labels == 0].astype(int)
            self.hidden[f"events of {each.name}"] = of_counts(np.bincount(days), primes, each.name)
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
            aggregator = site_storage().aggregator(made.aggregator, made.files).aggregator()
            with Journal(folder / "journal") as aggregator.journal:
                conduct(aggregator, partial(self._exchange, aggregator))
        self.look()
        for role, config in self._configured.items():
            self.seen[role] |= self.seen.pop(config["store"], set()) | self.seen[OUTSIDE]

    def _exchange(self, aggregator: Aggregator, message: bytes) -> Iterator[tuple[str, bytes]]:
        for name in aggregator.asked:
            with site_storage().site(self._configured[name]) as site:
                made = answer(site, message, lambda party, analysis: self.sites[party], lambda party, records: None)
            self.look(message, made.submission)
            yield name, made.submission

    def look(self, *sent: bytes) -> None:
        """Read what is sent, and all files: by pieces, as most of a file that grows is known."""
        self.seen[OUTSIDE] |= {*sent}
        for data in (each.read_bytes() for each in self.folder.rglob("*") if each.is_file()):
            self.seen[OUTSIDE] |= {data[start : start + PIECE + LONGEST] for start in range(0, len(data), PIECE)}

    def _opened(
        self, payload: bytes, message: Message, protection: object, recipient: str = "", mac_key: object = None
    ) -> None:
        self.seen[recipient or OUTSIDE].add(payload)
        hides = 3 if message.protocol == "ustat-pairs" else 1  # pairs: the tally; what comes before is for all parties
        if message.round == hides and message.sender in self.sites:
            some = (
                payload[-24:] if hides == 3 else payload[48:][:SEED_BYTES]
            )  # behind an echo's key: with a key, or pad
            self.hidden[f"what {message.sender} has sent"] = of_bytes(some, message.sender, AGGREGATOR)

    def _unsealed(self, secret: bytes, helper: object, signed: Any) -> None:
        self.hidden[f"seed of {signed.party}"] = of_bytes(secret[:SEED_BYTES], signed.party, HELPER)
        self.hidden[f"response key of {signed.party}"] = of_bytes(secret[SEED_BYTES:], signed.party, HELPER)

    def _answered(self, answers: Octets, proofs: object, key: bytes, parties: Sequence[int], *others: object) -> None:
        self.hidden["key of the query"] = of_bytes(key, AGGREGATOR, HELPER)
        for party, own in zip(parties, byte_rows(answers), strict=True):
            self.hidden[f"answers about {[*self.sites][party]}"] = of_bytes(own, AGGREGATOR, HELPER)


def generator() -> np.random.Generator:
    return np.random.default_rng(7)


QUICK = ("verified", "helper"), ("semi-honest", "sealed"), ("histogram-federated", "sealed"), ("dpauc-rr", "sealed")
PLAYED = [
    pytest.param(on, keys, marks=[] if (on, keys) in QUICK else [pytest.mark.slow])
    for keys, protocols in READ.items()
    for on in protocols
]


@cache
def watched(protocol: str, keys: str) -> Watched:
    """A session that is over, and its files are gone."""
    sites = made_up_sites(generator())
    if protocol == "censoring-federated":
        sites = [replace(each, times=np.arange(each.rows) % 21 / 1.0) for each in sites]
    with TemporaryDirectory() as folder:
        return Watched(protocol, keys, sites, Path(folder))


@pytest.mark.parametrize(("protocol", "keys"), PLAYED)
def test_nobody_learns_more_than_is_promised(protocol: str, keys: str) -> None:
    made, read = watched(protocol, keys), set[str]()
    public = found_in(made.seen[OUTSIDE], made.hidden, OUTSIDE)  # looked for once: it is the most, and all have it
    for reader, seen in made.seen.items():
        found = found_in(seen - made.seen[OUTSIDE], made.hidden, reader)
        read |= {f"{name}, by {reader}" for name in found | {n for n in public if reader not in made.hidden[n][1]}}
    told = made.sites if protocol in TOLD else ()
    assert read - {f"{each} of {POOL}, by {site}" for each in COUNTS_READ for site in told} == set()


def keys_in_a_fleets_files(folder: Path) -> set[str]:
    """Of every key that anybody draws, and of what the aggregator says of proofs."""
    drawn = list[bytes]()
    with (
        listening(secrets, "token_bytes", lambda found, size: drawn.append(found)),
        listening(InputProofs, "answers", lambda found, proofs, key, *_: drawn.extend((key, *byte_rows(found)))),
    ):
        simulate(8, GRID, folder, Workers(), proofs=True, progress=lambda *told: None)
        files = (each for each in folder.rglob("*") if each.is_file() and each.suffix != ".passphrase")
        seen = [each.read_bytes() for each in files]
    hidden = {f"key or answer {k}": of_bytes(each) for k, each in enumerate(drawn) if len(each) >= SEED_BYTES}
    return found_in(seen, hidden, OUTSIDE)


def test_who_reads_every_file_of_a_fleet_reads_no_key_and_no_answer_about_a_proof(tmp_path: Path) -> None:
    assert keys_in_a_fleets_files(tmp_path) == set()


def weighed(protocol: str, keys: str, made_up: int = 0, **request: Any) -> bool:
    """Whether a bin's negatives are read: the last site has so many `made_up` rows; else the aggregator adds them."""
    sites, plugin, weight = made_up_sites(generator()), registry.load(protocol), made_up or WEIGHT
    if made_up:
        sites[-1] = PartyData.from_arrays(SITES[-1], np.ones(made_up), np.full(made_up, GRID[BIN]))
    session = plugin.prepare(request_for(keys=keys, max_rows=2 * WEIGHT, **request))
    manifest, delivery = session.manifest, session.delivery()
    lying = partial(registry.attacks(protocol).aggregator, "add-many", rows=weight)
    aggregator = (plugin.aggregator if made_up else lying)(manifest, delivery.aggregator)
    roles = [plugin.party(manifest, delivery.parties[each.name], each) for each in sites]
    roles += [plugin.helper(manifest, delivery.helper)] if delivery.helper else []
    conduct(aggregator, answering(aggregator, roles))
    told: Any = roles[0].result()
    ties = round(told.binning_error * 2 * told.positives * told.negatives)
    return ties // weight == sum(int(count(each, GRID).bin_negatives[BIN]) for each in sites)


@pytest.mark.parametrize("keys", ["sealed", "helper"])
@pytest.mark.parametrize("protocol", EXACT)
def test_a_site_that_makes_up_rows_reads_a_bin_but_within_a_proved_cap_or_against_epsilon(
    protocol: str, keys: str
) -> None:
    """And of `exact` the aggregator does, where it is told the result; `verified` refuses the rows that it adds."""
    assert weighed(protocol, keys, WEIGHT)
    if keys == "helper":
        assert not weighed(protocol, keys, CAP, row_caps=CAP)
    if protocol == "exact":
        assert weighed(protocol, keys)
        return
    with pytest.raises(InputError):
        weighed(protocol, keys, WEIGHT, options={"epsilon": 1.0})
    with pytest.raises(VerificationError):
        weighed(protocol, keys)


def test_readers_read_every_protocol_of_results() -> None:
    evaluating = {name for name in registry.names() if not name.startswith("boundaries")}
    assert set(READ["sealed"]) == evaluating
    assert set(READ["helper"]) == {name for name in evaluating if "helper" in registry.load(name).key_kinds()}


@pytest.mark.parametrize(
    "written",
    [
        *(COUNTS.astype(kind).tobytes() for kind in ("u1", "<u2", ">i8", "<f8")),
        *(encode(COUNTS.tolist()), b'{"counts": [3, 0, 17, 130, 41, 5, 2, 9]}', b"[3,0,17,130,41,5,2,9]"),
        pack(residues([*[7] * 8, *COUNTS.tolist(), 1], PRIME), PRIME),
    ],
)
def test_counts_are_found_however_they_are_written(written: bytes) -> None:
    hidden = {"counts": of_counts(COUNTS, [PRIME], "north")}
    assert found_in([b"before", b"\x00" + written + b"behind"], hidden, OUTSIDE) == {"counts"}
    assert found_in([written], hidden, "north") == found_in([written[:-1][::-1]], hidden, OUTSIDE) == set()


def test_keys_are_found_as_bytes_and_as_text_and_what_lies_in_a_folder_for_one_step(tmp_path: Path) -> None:
    class Careless(Watched):
        def look(self, *sent: bytes) -> None:
            seed, note = self.session_seed(), self.folder / "notes.json"
            note.write_text(seed)
            super().look(*sent)
            note.unlink()

        def session_seed(self) -> str:
            return next(each.decode() for each in self.hidden["seed of south"][0] if len(each) == 64)

    made = Careless("histogram-federated", "sealed", made_up_sites(np.random.default_rng(1)), tmp_path)
    assert found_in(made.seen["north"], made.hidden, "north") == {"seed of south"}
    assert found_in(made.seen["south"], made.hidden, "south") == set()
    assert found_in([b"x", bytes(32)], {"a key": of_bytes(bytes(32))}, OUTSIDE) == {"a key"}


def test_a_role_s_own_store_and_what_is_sealed_to_it_are_read() -> None:
    """Else that readers find nothing would say nothing: those who know a secret find it there."""
    made = watched("verified", "helper")
    of_sites = ("seed of", "answers about", "response key of", *(f"{each} of" for each in COUNTS_READ))
    assert {*made.hidden} == {
        *(f"{what} {name}" for what in of_sites for name in SITES),
        *(f"what {name} has sent" for name in SITES),
        *(f"{each} of the pool" for each in COUNTS_READ),
        *("key of the query", "the common secret"),
    }
    nobody_knows = {name: (forms, ()) for name, (forms, _) in made.hidden.items()}
    own = {role: seen - made.seen[OUTSIDE] for role, seen in made.seen.items()} | {OUTSIDE: made.seen[OUTSIDE]}
    assert {role: found_in(seen, nobody_knows, role) for role, seen in own.items()} == {
        OUTSIDE: set(),
        AGGREGATOR: {f"what {name} has sent" for name in SITES},
        HELPER: {"key of the query", *(f"{what} {name}" for what in of_sites[1:3] for name in SITES)},
        **{name: {"the common secret", f"response key of {name}"} for name in SITES},
    }


def test_answers_about_proofs_open_in_a_fleets_folder_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_session, "answers_cipher", lambda *_: SimpleNamespace(update=bytes))
    assert len(keys_in_a_fleets_files(tmp_path)) == 8
