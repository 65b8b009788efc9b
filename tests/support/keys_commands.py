"""``fhe-auc keys`` called as the engineers of a consortium call it, at a time that tests set."""

import json
import re
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import Result

from fhe_auc.exchange.exchange import file_of
from fhe_auc.machines.file_transport import ANNOUNCEMENT
from fhe_auc_keys.cli import common
from fhe_auc_keys.cli.common import file_stem
from fhe_auc_keys.site.session_files import keep_for_party
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.store.vault import Vault
from fhe_auc_keys.trust import join_request
from tests.support import command_line
from tests.support.certified import NOW, STUDY, write_session
from tests.support.keys_folder import ADDER, SITES

ASKED = msgspec.structs.replace(STUDY, sites=SITES, maker="north", aggregator=ADDER, thresholds="uniform:16")


class Clock:
    """The time that the commands see."""

    def __init__(self) -> None:
        self.at = NOW

    def __call__(self) -> datetime:
        return self.at


call, ok, json_of = (partial(each, "keys") for each in (command_line.call, command_line.printed, command_line.told))


def store_of(name: str) -> KeyStore:
    return Vault(Path(name, "store"), Path(name, "passphrase")).open()


def assert_fails(result: Result, status: int, message: str) -> None:
    told = f"error: {json.loads(result.stdout)['error']}" if result.stdout else result.stderr.splitlines()[-1]
    assert (result.exit_code, told) == (status, result.stderr.splitlines()[-1])  # with --json the same as an object
    assert re.fullmatch(rf"error: .*{message}.*", result.stderr.splitlines()[-1]), result.stderr


def join(*names: str) -> None:
    """Make these members, whom north lets in, with a folder each; the exchange is here, and no process starts."""
    link = command_line.told("members", "show", "north/config.toml")["link"]
    for name in names:
        command_line.printed("join", link, name, "--no-start", input="y\n")
    changed("admit", *names, input="y\n" * len(names))


def changed(command: str, *arguments: str, **options: str | None) -> None:
    """Have north change who is a member, and everybody take the next file in, as processes do at each look."""
    command_line.printed("members", command, "north/config.toml", *arguments, **options)
    for config in Path().glob("*/config.toml"):
        command_line.printed("members", "show", str(config))


def settings(patch: pytest.MonkeyPatch, clock: Callable[[], datetime]) -> None:
    """A time that tests set, wide lines, and comparisons that are quick to make."""
    patch.setattr(join_request, "_COST", 2**10)
    patch.setenv("COLUMNS", "110")
    patch.delenv("FHE_AUC_STORE", raising=False)
    patch.setattr(common, "now", clock)


def make(folder: str, **changes: Any) -> str:
    """Have north make the session of a study, with its files in a new folder; return its id."""
    with store_of("north") as store:
        return write_session(Path(folder), store, msgspec.structs.replace(ASKED, **changes), at=common.now())


def open_as(name: str, folder: str = "week") -> str:
    """Have somebody open what north has sent, in a folder, as a role that serves does; return the session's id."""
    document, bundle = Path(folder, ANNOUNCEMENT).read_bytes(), Path(folder, f"{file_of(name)}.bundle")
    own = bundle.read_bytes() if bundle.exists() else b""
    with store_of(file_stem(name)) as store:
        kept = keep_for_party(document, own, store, at=common.now())
    return kept.manifest.session.hex()
