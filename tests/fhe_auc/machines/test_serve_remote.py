"""Roles that serve over S3, SFTP and WebDAV: the same result as over a folder, whoever changes what lies there."""

from __future__ import annotations

from pathlib import Path

import pytest

from fhe_auc.exchange.remote import open_exchange
from tests.support.exchanges import url_of
from tests.support.keys_folder import ADDER
from tests.support.served import (
    HOLDER,
    SITES,
    change,
    check_results,
    delivered,
    make_session,
    serving,
    status,
    step,
    until,
)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # the server's
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["s3", "sftp", "webdav"])
def test_two_nights_over_a_server_whose_files_are_replaced(kind: str, here: Path, tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    with url_of(kind, tmp_path / "server") as url:
        exchange = open_exchange(url)
        for name in (ADDER, *SITES):
            change(name, exchange=url)

        def publish(night: str) -> str:
            session = make_session(night, publish=False)
            for file in sorted(Path(night).iterdir()):
                exchange.put(f"{HOLDER}/{session}/{file.name}", file.read_bytes())
            return f"{ADDER}/{session}/round-1.message"

        old = publish("night-1")
        with serving(ADDER, *SITES):
            until(lambda: delivered(*SITES))
        message = publish("night-2")
        with serving(ADDER, "south"):
            until(lambda: step("south", "night-2") == "round 1 answered")
            genuine = exchange.read(message)
            exchange.put(message, exchange.read(old))
            until(lambda: exchange.read(message) == genuine)
        with serving(ADDER, *SITES):
            until(lambda: delivered(*SITES, number=2))
            check_results(*SITES)
            until(lambda: all(status(name)["health"] == "ok" for name in (ADDER, *SITES)))
