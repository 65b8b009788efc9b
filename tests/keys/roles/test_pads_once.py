"""A pad hides one sketch: a site pads once, whatever it is asked, whatever changes and wherever a process dies.

Two sketches under one pad would tell the aggregator how they differ.
"""

import pickle
from pathlib import Path
from typing import Any

import pytest

from fhe_auc.base.errors import EvaluationError, MessageError
from fhe_auc.base.serialise import decode
from fhe_auc.machines.site_state import site_storage
from fhe_auc.rows.party_data import PartyData
from fhe_auc_keys.bundles.session_keys import PartySecrets
from tests.support.stored_sites import Consortium


@pytest.fixture(params=[pytest.param("exact", marks=pytest.mark.slow), "verified"])
def consortium(request: pytest.FixtureRequest, site_rows: list[PartyData], tmp_path: Path) -> Consortium:
    return Consortium(site_rows, tmp_path / "c", request.param)


def has_seed(consortium: Consortium, name: str = "north") -> bool:
    return consortium.session.seeds[name] in consortium.kept(name)


def never(name: str) -> PartyData:
    pytest.fail(f"{name} was asked for its rows")


def other_opening(consortium: Consortium) -> bytes:
    """Another message for round 1, signed by the aggregator."""
    aggregator: Any = consortium.aggregator()
    return bytes(aggregator._message(b"again"))


def test_a_site_submits_once_whatever_it_is_asked_and_its_seed_is_gone_before_the_submission_leaves(
    consortium: Consortium, site_rows: list[PartyData]
) -> None:
    opening = consortium.aggregator().start()
    assert has_seed(consortium)  # the search finds what is there
    first = consortium.answer("north", opening)
    assert not has_seed(consortium)
    assert has_seed(consortium, "south")
    rows = site_rows[0]
    others = PartyData.from_arrays("north", ~rows.y_true[1:], rows.y_score[1:])
    assert consortium.answer("north", opening, lambda *_: others) == first
    for each in (rows, others):
        with pytest.raises((MessageError, ValueError), match="round 1, expected 2"):
            consortium.answer("north", other_opening(consortium), lambda *_, each=each: each)
    assert consortium.answer("north", opening, never) == first
    with site_storage().site(consortium.made.sites["north"]) as site:  # nor does a party made again of what is left
        again = site.session(consortium.id).party(rows)
    with pytest.raises(EvaluationError, match="'north' has submitted already: its pad is for one"):
        again.respond(opening)
    with pytest.raises(MessageError, match="has ended"):
        again.respond(opening)


def test_nothing_secret_is_printed_or_pickled(consortium: Consortium, site_rows: list[PartyData]) -> None:
    with site_storage().site(consortium.made.sites["north"]) as site:
        joined = site.session(consortium.id)
    party: Any = joined.party(site_rows[0])
    secret = decode(joined.material, PartySecrets, "")
    assert secret.seed == consortium.session.seeds["north"]
    party.respond(consortium.aggregator().start())
    things = [party, joined, consortium.session, secret]
    for each in things:
        for hidden in (secret.seed, secret.common_secret):
            assert repr(hidden)[2:-1] not in repr(each)
            assert hidden.hex() not in repr(each)
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(party)
