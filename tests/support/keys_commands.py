"""``fhe-auc keys`` called as the engineers of a consortium call it, at a time that tests set."""

import functools
import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from fhe_auc.cli import main
from fhe_auc_keys.cli import common
from fhe_auc_keys.store.key_store import KeyStore
from tests.support.certified import NOW, STUDY
from tests.support.keys_folder import ADDER, AUTHORITY, PASSPHRASE, TRUST, at


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
    if arguments[:1] == ("session",) and not {"--from", "--repeat"} & set(arguments):
        if "--aggregator" not in arguments:
            arguments = (*arguments, "--aggregator", f"{ADDER}/{ADDER}.credential")
        if "--study" not in arguments:
            arguments = (*arguments, "--study", "study.toml")
    return CliRunner().invoke(main, ["keys", *arguments], **options)


def ok(*arguments: str, **options: str) -> Result:
    result = call(*arguments, **options)
    assert result.exit_code == 0, result.output
    return result


def json_of(*arguments: str, **options: str) -> dict[str, Any]:
    """What a command says with --json."""
    said: dict[str, Any] = json.loads(ok(*arguments, "--json", **options).stdout)
    return said


def store_of(name: str) -> KeyStore:
    return KeyStore(Path(name, "store"), PASSPHRASE)


def assert_fails(result: Result, status: int, message: str) -> None:
    told = f"error: {json.loads(result.stdout)['error']}" if result.stdout else result.stderr.splitlines()[-1]
    assert (result.exit_code, told) == (status, result.stderr.splitlines()[-1])  # with --json the same as an object
    assert re.fullmatch(rf"error: .*{message}.*", result.stderr.splitlines()[-1]), result.stderr


def fingerprint_in(folder: str = "authority") -> str:
    return x509.load_pem_x509_certificate(Path(folder, "ca.pem").read_bytes()).fingerprint(hashes.SHA256()).hex()


def request_fingerprint(path: str) -> str:
    der = x509.load_pem_x509_csr(Path(path).read_bytes()).public_bytes(serialization.Encoding.DER)
    digest = hashes.Hash(hashes.SHA256())
    digest.update(der)
    return digest.finalize().hex()


def make_site(name: str, stem: str | None = None) -> list[Result]:
    stem = stem or name
    Path(name).mkdir(exist_ok=True)
    enrol = ("enrol", stem, *at(name), "--out", name)
    first = ok(*enrol)
    request = next(Path(name).glob("*.csr"))
    asked = ("--fingerprint", request_fingerprint(str(request)))
    issued = ok("issue", str(request), stem, *AUTHORITY, "--out", name, *asked)
    certificate = ("--certificate", str(request.with_suffix(".pem")))
    return [first, issued, ok(*enrol, *certificate, *TRUST, "--fingerprint", fingerprint_in())]


def settings(patch: pytest.MonkeyPatch, clock: Callable[[], datetime]) -> None:
    """A time that tests set, wide lines, and key stores whose scrypt is quick."""
    patch.setenv("COLUMNS", "110")
    patch.setenv("FHE_AUC_PASSPHRASE", PASSPHRASE)
    patch.delenv("FHE_AUC_STORE", raising=False)
    patch.setattr(common, "now", clock)
    patch.setattr(KeyStore, "create", functools.partial(KeyStore.create, log2_cost=10))


def open_as(
    name: str, bundle: str | None = None, *more: str, holder: str = "north", study: str = "study.toml"
) -> Result:
    return call("open", bundle or f"week/{name}.bundle", "--holder", holder, *at(name), "--study", study, *more)


def open_as_aggregator(*more: str, bundle: str = "week/aggregator.bundle") -> Result:
    return call("open", bundle, "--holder", "north", *at(ADDER), "--out", "aggregator.keys", *more)


def refresh(clock: Clock, after: timedelta) -> tuple[str, str]:
    """Let time go by and the authority write a fresh list; return the option that passes it on."""
    clock.at += after
    ok("revoke", "--refresh", *AUTHORITY, "--out", "authority")
    return "--revocation-list", "authority/ca.crl"
