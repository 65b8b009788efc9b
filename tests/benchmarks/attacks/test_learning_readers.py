"""Readers see every byte of a session, know what they look for, and learn nothing that is not promised."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fhe_auc.base.party_names import AGGREGATOR, HELPER
from fhe_auc.base.serialise import encode
from fhe_auc.rlwe.modular import residues
from fhe_auc.sums.residues import pack
from fhe_auc_benchmarks.attacks.cli import _OTHERS
from fhe_auc_benchmarks.attacks.laboratory import SITES, made_up_sites
from fhe_auc_benchmarks.attacks.learning.readers import (
    ON,
    OUTSIDE,
    READERS,
    Secret,
    Watched,
    forms_of,
    found_in,
    of_bytes,
    watched,
)

COUNTS, PRIME = np.array([3, 0, 17, 130, 41, 5, 2, 9]), 2_199_023_288_321
QUICK = {("semi-honest", "sealed"), ("verified", "sealed"), ("dpauc-rr", "sealed"), ("verified", "helper")}
SESSIONS = [
    pytest.param(name, keys, id=f"{name}, {keys}", marks=[] if (name, keys) in QUICK else pytest.mark.slow)
    for keys, names in ON.items()
    for name in names
]


@pytest.mark.parametrize(
    "written",
    [
        COUNTS.astype("<u2").tobytes(),
        COUNTS.astype(">i8").tobytes(),
        COUNTS.astype("<f8").tobytes(),
        encode(COUNTS.tolist()),
        encode(COUNTS.astype(float).tolist()),
        b'{"counts": [3, 0, 17, 130, 41, 5, 2, 9]}',
        b'{"counts":[3.0,0.0,17.0,130.0,41.0,5.0,2.0,9.0]}',
        pack(residues([*[7] * 8, *COUNTS.tolist(), 1], PRIME), PRIME),
    ],
)
def test_counts_are_found_however_they_are_written(written: bytes) -> None:
    secrets = {"counts": Secret(COUNTS.tolist(), frozenset({"north"}), forms_of(COUNTS, [PRIME]))}
    assert found_in([b"before", b"\x00" + written + b"behind"], secrets).exactly == ["counts"]
    assert found_in([written], secrets, "north").exactly == []
    assert found_in([written[:-1][::-1]], secrets).exactly == []


@pytest.mark.parametrize("written", [bytes(range(32)), bytes(range(32)).hex().encode(), b'"AAECAwQFBgcICQoLDA0ODw'])
def test_keys_are_found_as_bytes_and_as_text(written: bytes) -> None:
    secret = bytes(range(32)) if len(written) > 23 else bytes(range(16))
    assert found_in([b"x", written], {"a key": of_bytes(secret)}).exactly == ["a key"]


def test_what_lies_in_a_folder_for_one_step_is_read(tmp_path: Path) -> None:
    class Careless(Watched):
        def sent(self, data: bytes, recipient: str) -> None:
            file = self.folder / "notes.json"
            file.write_text(str(self.secrets["negatives of south"].value))
            super().sent(data, recipient)
            file.unlink()

    made = Careless("verified", "sealed", made_up_sites(np.random.default_rng(1)), tmp_path)
    found: Any = found_in(made.seen[OUTSIDE], made.secrets)
    assert found.exactly == ["negatives of south"]
    assert found_in(made.seen[OUTSIDE], made.secrets, "south").exactly == []
    assert not list(tmp_path.glob("notes.json"))


def test_a_role_s_own_store_and_what_is_sealed_to_it_are_read() -> None:
    """Else that the readers find nothing would say nothing: those who know a secret find it there."""
    seen, secrets = watched("verified", "helper", 3)
    assert {f"{label} of {name}" for label in ("negatives", "positives") for name in (*SITES, "the pool")} | {
        *(f"{what} {name}" for what in ("seed of", "answers about") for name in SITES),
        *(f"what {name} has sent" for name in SITES),
        *("key of the query", "the common secret"),
    } == {*secrets}
    strangers = {name: each._replace(known_to=frozenset()) for name, each in secrets.items()}
    assert found_in(seen[OUTSIDE], strangers).exactly == []
    assert found_in(seen["north"], strangers).exactly == ["the common secret"]
    assert set(found_in(seen[HELPER], strangers).exactly) == {
        *("key of the query", *(f"answers about {name}" for name in SITES))
    }
    assert set(found_in(seen[AGGREGATOR], strangers).exactly) == {f"what {name} has sent" for name in SITES}


@pytest.mark.parametrize(("protocol", "keys"), SESSIONS)
def test_no_reader_learns_what_is_not_promised(protocol: str, keys: str) -> None:
    for name, reader in READERS.items():
        if protocol in reader.on.get(keys, ()):
            found = reader.run(protocol, keys, 1, 4)
            assert (found["trials"], found["beyond"], found["refused"]) == (1, 0, {}), (name, found)


def test_the_command_offers_every_protocol_that_readers_read() -> None:
    assert {name for names in ON.values() for name in names} == {
        *_OTHERS,
        "semi-honest",
        "malicious",
        "exact",
        "verified",
    }
