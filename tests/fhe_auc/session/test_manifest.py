"""A manifest that makes no sense is refused, every change of one shows, and its plan must fit it."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest

from fhe_auc.base.errors import DeserialisationError, InputError
from fhe_auc.base.names import AGGREGATOR
from fhe_auc.base.serialise import encode
from fhe_auc.question.study import Study
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.plan import EncodedPlan
from fhe_auc.session.protocol import Session
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from tests.support.blinded_auc import encoded

WORDS = {"model": "sepsis-net 2.1", "outcome": "sepsis", "cohort": "adults", "period": "2029"}
CERTIFIED: dict[str, Any] = {"fingerprints": (b"n" * 32, b"s" * 32, b"e" * 32), "aggregator": b"a" * 32}


FINGERPRINTS = CERTIFIED["fingerprints"]
NONSENSE: dict[str, dict[str, Any]] = {
    "nothing said of what machines evaluate": CERTIFIED,
    "a study in one process": {"study": WORDS},
    "a row cap of a stranger": {**CERTIFIED, "study": {**WORDS, "row-caps": {"north": 5, "west": 5}}},
    "a row cap of nothing": {**CERTIFIED, "study": {**WORDS, "row-caps": {"north": 0}}},
    "a study without an outcome": {**CERTIFIED, "study": {**WORDS, "outcome": ""}},
    "parties twice": {"parties": ("a", "a")},
    "party called aggregator": {"parties": ("a", AGGREGATOR)},
    "nameless party": {"parties": ("a", "")},
    "no parties": {"parties": ()},
    "no min_parties": {"min_parties": 0},
    "one of three is a pool": {"min_parties": 1},
    "min_parties above all": {"min_parties": 4},
    "no session id": {"session": b""},
    "short session id": {"session": b"short"},
    "cut grid": {"grid": b"123"},
    "descending grid": {"grid": np.array([0.5, 0.1]).tobytes()},
    "NaN in the grid": {"grid": np.array([np.nan] * 16).tobytes()},
    "short fingerprint": {"context": b"short"},
    "aggregator's keys alone": {"study": WORDS, "aggregator": b"a" * 32},
    "parties' keys alone": {"fingerprints": FINGERPRINTS},
    "a fingerprint too few": {**CERTIFIED, "study": WORDS, "fingerprints": FINGERPRINTS[:2]},
    "short fingerprint of keys": {**CERTIFIED, "study": WORDS, "fingerprints": (*FINGERPRINTS[:2], b"short")},
    "two parties with one pair of keys": {**CERTIFIED, "study": WORDS, "fingerprints": (*FINGERPRINTS[:2], b"s" * 32)},
    "an aggregator that is a party": {**CERTIFIED, "study": WORDS, "fingerprints": (*FINGERPRINTS[:2], b"a" * 32)},
    "infinite option": {"options": {"epsilon": math.inf}},
    "NaN as an option": {"options": {"epsilon": math.nan}},
    "nothing as an option": {"options": {"epsilon": None}},
}


@pytest.mark.parametrize("changes", NONSENSE.values(), ids=NONSENSE)
def test_a_manifest_that_makes_no_sense_is_refused(prepared: Session, changes: dict[str, Any]) -> None:
    encoded = msgspec.msgpack.encode({**msgspec.to_builtins(prepared.manifest, builtin_types=(bytes,)), **changes})
    with pytest.raises(DeserialisationError, match="malformed manifest"):
        Manifest.from_bytes(encoded)
    study = {**WORDS, "row-caps": {"north": 5}}  # what that would accept, had it not been spoilt
    plain = {**msgspec.to_builtins(prepared.manifest, builtin_types=(bytes,)), **CERTIFIED, "study": study}
    assert Manifest.from_bytes(msgspec.msgpack.encode(plain)).study == Study(**WORDS, row_caps={"north": 5})


def test_any_change_of_the_manifest_changes_what_messages_carry(prepared: Session, other_prepared: Session) -> None:
    manifest, study = prepared.manifest, Study(**WORDS)
    plan = manifest.decoded_plan(AucPlan)
    changes: list[dict[str, Any]] = [
        {"min_parties": 3},
        {"parties": ("north", "east", "south")},
        {"session": bytes(16)},
        {"grid": (manifest.thresholds / 2).tobytes()},
        {"context": other_prepared.manifest.context},
        {"protocol": "malicious"},
        {**CERTIFIED, "study": study},
        {**CERTIFIED, "study": study, "aggregator": b"b" * 32},
        {**CERTIFIED, "study": study, "fingerprints": (b"x" * 32, *FINGERPRINTS[1:])},
        *({**CERTIFIED, "study": msgspec.structs.replace(study, **{name: "another"})} for name in WORDS),
        *({**CERTIFIED, "study": msgspec.structs.replace(study, row_caps={name: 5})} for name in ("north", "south")),
        *({"options": {"epsilon": epsilon}} for epsilon in (1.0, 2.0)),
        {"plan": encoded(msgspec.structs.replace(plan, workload=msgspec.structs.replace(plan.workload, parties=4)))},
    ]
    digests = {manifest.digest, *(msgspec.structs.replace(manifest, **change).digest for change in changes)}
    assert len(digests) == len(changes) + 1


class SmallPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a manifest looks at in a plan."""

    kind: ClassVar[str] = "small"
    keys: str = "sealed"
    thresholds: int = 16
    parties: int = 3


def with_plan(plan: EncodedPlan | None, **changes: Any) -> Manifest:
    values = {"protocol": "small", "session": bytes(16), "parties": ("north", "south", "east"), "plan": plan}
    values |= {"grid": np.linspace(0, 1, 16).tobytes(), "min_parties": 2, "keys": "sealed", "context": bytes(32)}
    return Manifest(**{**values, **changes})


def small(**changes: Any) -> EncodedPlan:
    return EncodedPlan("small", encode(SmallPlan(**changes)))


@pytest.mark.parametrize("parties", [3, 4])
def test_a_plan_that_fits_comes_out_as_it_went_in(parties: int) -> None:
    manifest = Manifest.from_bytes(with_plan(small(parties=parties)).to_bytes())
    assert manifest.decoded_plan(SmallPlan) == SmallPlan(parties=parties)


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        (small(keys="helper"), "plan is for helper keys, the session's are sealed"),
        (small(thresholds=15), "plan is for another number of thresholds"),
        (small(parties=2), "plan is for fewer parties"),
        (EncodedPlan("blinded AUC", small().content), "for a computation of kind 'blinded AUC'"),
        (EncodedPlan("small", b""), "has no valid plan"),
        (EncodedPlan("small", encode({"keys": 1})), "has no valid plan"),
        (EncodedPlan("small", encode({"keys": "sealed", "sums": 2})), "has no valid plan"),
    ],
    ids=["other keys", "other thresholds", "fewer parties", "another kind", "empty", "a wrong type", "a surplus field"],
)
def test_a_plan_that_does_not_fit_is_refused(plan: EncodedPlan, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        with_plan(plan).decoded_plan(SmallPlan)
    with pytest.raises(InputError, match="has no plan for an encrypted computation"):
        with_plan(None, keys="none", context=b"").decoded_plan(SmallPlan)


NOT_ENCRYPTED = {"keys": "none", "context": b""}
TWO_HELPERS = {"keys": "helper", "context": bytes(64), "aggregator": bytes(32)}


@pytest.mark.parametrize(
    ("plan", "changes", "problem"),
    [
        (None, {}, "a plan if, and only if, it has keys"),
        (small(), {"keys": "none", "context": b""}, "a plan if, and only if, it has keys"),
        (small(), {"context": b""}, "with sealed keys, what names them has 32 bytes, got 0"),
        (small(keys="helper"), {"keys": "helper"}, "with helper keys, what names them has 0 bytes, got 32"),
        (small(keys="helper"), TWO_HELPERS, "with helper keys, what names them has 32 bytes, got 64"),
        *(
            (
                None,
                {**NOT_ENCRYPTED, "parties": ("east", *pair)},
                f"^parties {pair[0]!r} and {pair[1]!r} would be two, bu",
            )
            for pair in (("North", "north"), ("STRASSE", "straße"), ("\uff21", "a"))
        ),
    ],
)
def test_keys_names_and_plan_go_together_and_no_two_names_are_alike(
    plan: EncodedPlan | None, changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        with_plan(plan, **changes)
