"""``fhe-auc keys`` called as the engineers of a consortium call it, at a time that tests set."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fhe_auc.cli import main
from fhe_auc_keys.cli import common
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.store.vault import Vault
from fhe_auc_keys.trust import members
from tests.support.certified import NOW, STUDY
from tests.support.keys_folder import ADDER, at


class Clock:
    """The time that the commands see."""

    def __init__(self) -> None:
        self.at = NOW

    def __call__(self) -> datetime:
        return self.at


def write_study(path: str, *, row_caps: Mapping[str, int] | None = None, most_away: int = 0, **changes: str) -> None:
    """A study file as a person writes it: `STUDY`, but for the changes."""
    words = {name: getattr(STUDY, name) for name in ("model", "outcome", "cohort", "period")} | changes
    lines = [f'{name.replace("_", "-")} = "{text}"' for name, text in words.items()]
    lines += [
        f"most-away = {most_away}",
        "[row-caps]",
        *(f"{party} = {cap}" for party, cap in (row_caps or {}).items()),
    ]
    Path(path).write_text("\n".join(lines))


def call(*arguments: str, **options: str) -> Result:
    if arguments[:1] == ("session",):
        if "--aggregator" not in arguments:
            arguments = (*arguments, "--aggregator", ADDER)
        if "--study" not in arguments:
            arguments = (*arguments, "--study", "study.toml")
    return CliRunner().invoke(main, ["keys", *arguments], **options)


def ok(*arguments: str, **options: str) -> Result:
    result = call(*arguments, **options)
    assert result.exit_code == 0, result.output
    return result


def ok_of(*arguments: str, **options: str) -> Result:
    """Of a command that is not one of ``fhe-auc keys``."""
    result = CliRunner().invoke(main, arguments, **options)
    assert result.exit_code == 0, result.output
    return result


def json_of(*arguments: str, **options: str) -> dict[str, Any]:
    """What a command says with --json."""
    said: dict[str, Any] = json.loads(ok(*arguments, "--json", **options).stdout)
    return said


def store_of(name: str) -> KeyStore:
    return Vault(Path(name, "store"), Path(name, "passphrase")).open()


def assert_fails(result: Result, status: int, message: str) -> None:
    told = f"error: {json.loads(result.stdout)['error']}" if result.stdout else result.stderr.splitlines()[-1]
    assert (result.exit_code, told) == (status, result.stderr.splitlines()[-1])  # with --json the same as an object
    assert re.fullmatch(rf"error: .*{message}.*", result.stderr.splitlines()[-1]), result.stderr


def join(*names: str) -> None:
    """Make these members, whom north lets in, with a folder each; the exchange is here, and no process starts."""
    link = json.loads(ok_of("members", "show", "north/config.toml", "--json").stdout)["link"]
    for name in names:
        ok_of("join", link, name, "--no-start", input="y\n")
    changed("admit", *names, input="y\n" * len(names))


def changed(command: str, *arguments: str, **options: str) -> None:
    """Have north change who is a member, and everybody take the next file in, as processes do at each look."""
    ok_of("members", command, "north/config.toml", *arguments, **options)
    for config in Path().glob("*/config.toml"):
        ok_of("members", "show", str(config))


def settings(patch: pytest.MonkeyPatch, clock: Callable[[], datetime]) -> None:
    """A time that tests set, wide lines, and comparisons that are quick to make."""
    patch.setattr(members, "_COST", 2**10)
    patch.setenv("COLUMNS", "110")
    patch.delenv("FHE_AUC_STORE", raising=False)
    patch.setattr(common, "now", clock)


def open_as(
    name: str, bundle: str | None = None, *more: str, holder: str = "north", study: str = "study.toml"
) -> Result:
    return call("open", bundle or f"week/{name}.bundle", "--holder", holder, *at(name), "--study", study, *more)


def open_as_aggregator(*more: str, bundle: str = "week/aggregator.bundle") -> Result:
    return call("open", bundle, "--holder", "north", *at(ADDER), "--out", "aggregator.keys", *more)
