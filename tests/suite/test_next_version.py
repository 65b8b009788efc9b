"""A made-up next version of what a key store keeps, at one site: it plays with others, and its store says what it is.

Messages have no such steps: `tests.suite.test_told_nights` plays one of the next version, which others refuse.
"""

from dataclasses import replace

import pytest

from fhe_auc.base.serialise import KeptFormat
from fhe_auc_keys.site import policy
from tests.suite.consortium import CASES, World
from tests.suite.nights import DAY
from tests.suite.test_told_nights import look

OLD = policy._BOOK.form
NEW = KeptFormat(
    OLD.magic, OLD.shape, OLD.what, version=OLD.version + 1, older={OLD.version: (OLD.shape, lambda value: value)}
)
REFUSED = f"record of agreed studies of format version {NEW.version}, from a newer fhe-auc than this"


def test_a_site_of_the_next_version_plays_with_others_and_its_store_is_refused_by_this_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with World(CASES[-1], 0) as world:

        def night(*others: str, upgraded: bool) -> None:
            """Others are of this version, and south of the next one, or of this one again."""
            for _ in range(6):
                look(world, *others)
                with monkeypatch.context() as patch:
                    if upgraded:
                        patch.setattr(policy, "_BOOK", replace(policy._BOOK, form=NEW))
                    look(world, "south")

        others = [name for name in world.roles if name != "south"]
        first = world.make_night()
        night(*others, upgraded=True)
        assert world.all_have_results
        assert world.counted(first) == world.sites
        world.physics.passed += DAY
        second = world.make_night()
        night("north", "adder", upgraded=False)
        assert REFUSED in world.status("south")["health"]
        assert "install the newer one here" in world.status("south")["health"]
        assert "south" not in second.said
        night(*others, upgraded=True)
        assert world.status("south")["health"] == "ok"
        assert world.counted(second) == world.sites
        assert world.all_have_results
