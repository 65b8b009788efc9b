"""A night of roles that serve, each in an exchange of its own, between which nothing goes but letters."""

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from fhe_auc.exchange.exchange import Folder, place_of
from fhe_auc.machines.postman import Hub, answer
from tests.support.keys_folder import ADDER
from tests.support.served import HOLDER, SITES, change, check_results, delivered, make_session, serving, until


def carried(hub: Hub, names: Iterable[str]) -> None:
    for name, letter in hub.letters(names).items():
        hub.take(name, answer(Folder(Path(name, "exchange")), name, letter))


@pytest.mark.usefixtures("here")
def test_a_night_gives_all_sites_the_auc_of_their_rows_and_in_no_exchange_is_what_is_for_others() -> None:
    for name in (*SITES, ADDER):
        change(name, exchange=f"{name}/exchange")
    for name in (*SITES, ADDER):
        Path(name, "exchange").mkdir()
    session = make_session(publish=False)
    shutil.copytree("night-1", Path(HOLDER, "exchange", place_of(HOLDER), session))
    hub = Hub(Folder(Path(ADDER, "exchange")), {name: name for name in SITES}, 0.0)
    with serving(ADDER, *SITES):
        until(lambda: carried(hub, SITES) or delivered(*SITES))
    check_results(*SITES)
    for name in SITES:
        found = {str(path.relative_to(Path(name, "exchange"))) for path in Path(name, "exchange").rglob("*.*")}
        if name != HOLDER:
            assert {file for file in found if file.endswith(".bundle")} <= {f"{HOLDER}/{session}/{name}.bundle"}
        assert {file.partition("/")[0] for file in found if file.endswith(".submission")} == {name}
