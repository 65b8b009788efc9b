"""Who reads every byte of a session, or lies to be told more, learns what is promised, and the command says so."""

from pathlib import Path

import numpy as np
import pytest

from fhe_auc.base.names import AGGREGATOR, HELPER
from fhe_auc.base.serialise import encode
from fhe_auc.rlwe.modular import residues
from fhe_auc.session import registry
from fhe_auc.sums.pads import pack
from fhe_auc_benchmarks.attacks import learning
from fhe_auc_benchmarks.attacks.laboratory import SITES, made_up_sites
from fhe_auc_benchmarks.attacks.learning import (
    ATTACKS,
    OUTSIDE,
    Watched,
    found_in,
    of_bytes,
    of_counts,
)
from fhe_auc_keys.fleet.sealed_answers import AnswersSeal

COUNTS, PRIME = np.array([3, 0, 17, 130, 41, 5, 2, 9]), 2_199_023_288_321
SLOW = {(on, "sealed") for on in ("malicious", "exact", *learning.OTHERS) if on != "dpauc-rr"} | {
    (on, "helper") for on in ("exact", "histogram-distributed-dp", "counts-federated")
}
PLAYED = [
    pytest.param(name, on, keys, marks=[pytest.mark.slow] if name == "read-all" and (on, keys) in SLOW else [])
    for name, each in ATTACKS.items()
    for keys, protocols in each.on.items()
    for on in protocols
]
READ = {("made-up-rows", "exact"), ("made-up-rows", "verified"), ("added-rows", "exact")}
REFUSED = {("against-noise", "verified"): "InputError", ("added-rows", "verified"): "VerificationError"}


@pytest.mark.parametrize(("name", "protocol", "keys"), PLAYED)
def test_nobody_learns_more_than_is_promised(name: str, protocol: str, keys: str) -> None:
    refused = {error: 2 for error in [REFUSED.get((name, protocol))] if error}
    read = {"pooled negatives of bin 1": 2} if (name, protocol) in READ else {}
    assert ATTACKS[name].run(protocol, keys, 2, 7) == {"read": read, "beyond": {}, "refused": refused}


def test_readers_read_every_protocol_of_results() -> None:
    evaluating = {name for name in registry.names() if not name.startswith("boundaries")}
    assert set(ATTACKS["read-all"].on["sealed"]) == evaluating
    helped = {name for name in evaluating if "helper" in registry.load(name).key_kinds()}
    assert set(ATTACKS["read-all"].on["helper"]) == helped


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

    made = Careless("verified", "sealed", made_up_sites(np.random.default_rng(1)), tmp_path)
    assert found_in(made.seen["north"], made.hidden, "north") == {"seed of south"}
    assert found_in(made.seen["south"], made.hidden, "south") == set()
    assert found_in([b"x", bytes(32)], {"a key": of_bytes(bytes(32))}, OUTSIDE) == {"a key"}


def test_a_role_s_own_store_and_what_is_sealed_to_it_are_read(tmp_path: Path) -> None:
    """Else that readers find nothing would say nothing: those who know a secret find it there."""
    made = Watched("verified", "helper", made_up_sites(np.random.default_rng(3)), tmp_path)
    of_sites = ("seed of", "answers about", "response key of", *(f"{each} of" for each in learning._COUNTS))
    assert {*made.hidden} == {
        *(f"{what} {name}" for what in of_sites for name in SITES),
        *(f"what {name} has sent" for name in SITES),
        *(f"{each} of the pool" for each in learning._COUNTS),
        *("key of the query", "the common secret"),
    }
    nobody_knows = {name: (forms, ()) for name, (forms, _) in made.hidden.items()}
    assert {role: found_in(seen, nobody_knows, role) for role, seen in made.seen.items()} == {
        OUTSIDE: set(),
        AGGREGATOR: {f"what {name} has sent" for name in SITES},
        HELPER: {"key of the query", *(f"{what} {name}" for what in of_sites[1:3] for name in SITES)},
        **{name: {"the common secret", f"response key of {name}"} for name in SITES},
    }


def test_answers_about_proofs_that_lie_open_in_a_fleets_folder_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AnswersSeal, "seal", lambda seal, row, member, answers: answers)
    monkeypatch.setattr(AnswersSeal, "unseal", lambda seal, row, member, sealed: sealed)
    assert len(ATTACKS["read-fleet"].run("exact", "helper", 1, 0)["beyond"]) == 8
