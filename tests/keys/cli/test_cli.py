"""``fhe-auc keys`` as the engineers of a consortium meet it: each refusal is one line and the right status."""

import base64
import os
import re
import stat
import subprocess
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from fhe_auc.base.clock import SYSTEM
from fhe_auc.base.errors import InputError
from fhe_auc_keys.bundles.sealed_bundles import Kept
from fhe_auc_keys.store.key_store import is_in
from fhe_auc_keys.store.vault import Vault, create_with_random_passphrase
from fhe_auc_keys.trust.identity import Identity
from tests.support.command_line import printed
from tests.support.keys_commands import Clock, assert_fails, call, join, json_of, make, ok, open_as, store_of
from tests.support.keys_folder import ADDER, NORTH, SITES, SOUTH, at
from tests.support.platforms import full_disk, needs_modes

pytestmark = pytest.mark.usefixtures("consortium")


@needs_modes
@pytest.mark.parametrize("umask", [0, 0o077])
def test_what_is_written_is_private_or_for_all_who_reach_the_folder_whatever_the_umask(
    umask: int, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who carry files are other users; what is sealed may be read by anybody."""
    monkeypatch.setattr(SYSTEM, "now", clock)
    Path("study.toml").write_text(
        f'model = "m"\noutcome = "o"\ncohort = "c"\nperiod = "p"\nsites = {list(SITES)}\nmaker = "north"\n'
        f'aggregator = "{ADDER}"\nthresholds = "uniform:16"\n'
    )
    for place in ("exchange", "exchange/north"):  # where the members' file is already
        Path(place).chmod(0o2770)
    before = os.umask(umask)
    try:
        printed("session", "make", "study.toml", "north/config.toml")
        join("east")
    finally:
        os.umask(before)
    (folder,) = (path.parent for path in Path("exchange").glob("north/*/session"))
    sent = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (*folder.iterdir(), Path("exchange/east/request"))}
    names = "session", "aggregator.bundle", "north.bundle", "south.bundle", "request"
    assert sent == dict.fromkeys(names, 0o644)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o2750  # to others, for reading
    assert {path.stat().st_mode & 0o077 for path in (Path("east"), *Path("east").rglob("*"))} == {0}


def test_nothing_secret_is_printed_or_sent(template: tuple[Path, str]) -> None:
    for name in SITES:
        open_as(name)
    said = [template[1]]
    said += [ok("show", *at(name), *more) for name in SITES for more in ((), ("--json",))]
    secrets = []
    for name in SITES:
        with store_of(name) as store:
            identity = Identity.from_bytes(store.get("identity", "own"))
            signing, encryption = identity.keys.components
            secrets += [signing, *encryption]
            (session,) = store.names("bundle")
            material = Kept.stored(store, bytes.fromhex(session)).material
            secrets += [material[-32:], material[-200:-160]]
    everything = "".join(said)
    assert "link" in everything
    spelled = re.sub(r"\s", "", everything)
    for secret in secrets:
        assert secret.hex()[:32] not in spelled  # as much as one line holds
        assert base64.b64encode(secret).decode() not in spelled
    assert all(Path(name, "passphrase").read_text().strip() not in everything for name in SITES)
    files = [path for path in Path().rglob("*") if path.is_file()]
    assert len(files) > 15
    for path in files:
        data = path.read_bytes()
        assert not any(secret in data for secret in secrets), path


def test_a_passphrase_is_right_or_comes_from_a_file_of_one_line_that_is_its_owner_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = Path("north/passphrase")
    passphrase = path.read_text().strip()
    monkeypatch.delenv("FHE_AUC_PASSPHRASE", raising=False)
    advice = "Name its file \\(passphrase-file\\), or set FHE_AUC_PASSPHRASE"
    assert_fails(call("show", *NORTH[:2]), 2, f"which is the passphrase of 'north/store'\\? {advice}")
    monkeypatch.setenv("FHE_AUC_PASSPHRASE", passphrase)
    for file, inherits in ((None, True), (path, False)):  # children inherit none where a file is given
        Vault(Path("north/store"), file).open().close()
        child = subprocess.run(["/usr/bin/env"], capture_output=True, check=True)
        assert (passphrase.encode() in child.stdout) is inherits
    monkeypatch.setenv("FHE_AUC_PASSPHRASE", "wrong horse battery staple")
    assert_fails(call("show", "--store", "north/store"), 1, "the passphrase is not this key store's")
    path.chmod(0o640)
    monkeypatch.setenv("FHE_AUC_STORE", "north/store")
    show = ("show", "--passphrase-file", "north/passphrase")
    assert_fails(call(*show), 1, "passphrase file 'north/passphrase' is open to other users")
    path.chmod(0o600)
    assert json_of(*show)["name"] == "north"  # not the variable's: the file counts
    for bad in (b"", b"\n", b"two\nlines\n", b"\xff\xfe"):
        path.write_bytes(bad)
        assert_fails(call(*show), 2, "'north/passphrase' is not one line of text")


def test_a_random_passphrase_is_written_once_before_its_store_and_never_over_another_file() -> None:
    """Its store opens at once, so that nothing else may be the passphrase of such a one."""
    file, new = Path("secret"), Path("new")
    file.write_text("of something else")
    with pytest.raises(InputError, match="'secret' is there already, and may be another key store's passphrase"):
        create_with_random_passphrase(Path("east"), file)
    assert (file.read_text(), Path("east").exists()) == ("of something else", False)
    for longest in (40, 70):  # a disk that is full before the passphrase is written, and before the store's header is
        with full_disk(longest), pytest.raises(OSError, match=r"disk I/O error|File too large"):
            create_with_random_passphrase(Path("east"), new)
        assert (new.exists(), is_in(Path("east"))) == (False, False)
    create_with_random_passphrase(Path("east"), new).close()
    (passphrase,) = new.read_text().splitlines()
    assert (len(bytes.fromhex(passphrase)), new.stat().st_mode & 0o777) == (32, 0o600)


def test_show_tells_programs_what_is_in_a_store_by_names_and_iso_8601_times() -> None:
    odd = ("St. Mary's / West", "St. Mary's / East", "../up")  # names that are no file names
    join(*odd)
    make("next", sites=("north", "south", *odd))
    assert len(list(Path("next").iterdir())) == 7
    for name in ("south", *odd):
        open_as(name, "next")
    told = json_of("show", *SOUTH)
    assert (told["name"], told["members"]["version"]) == ("south", 3)
    assert told["members"]["names"] == ["north", "south", ADDER, *odd]
    (session,) = told["sessions"].values()
    assert session == {"state": "opened", "until": session["until"], "has_result": False, "end_seen": None}
    times = [datetime.fromisoformat(each) for each in (session["until"], told["members"]["ends"])]
    assert {each.utcoffset() for each in times} == {timedelta(0)}


def test_a_site_sees_what_is_spent_and_sets_a_limit() -> None:
    shown = json_of("budget", *NORTH)
    nothing = {"epsilon": 0.0, "delta": 0.0, "limit": None, "protects": None, "exact": None}
    assert shown == {"data_sets": {"rows": nothing}, "sessions": {}, "restored": False}
    limited = ("--limit", "4")
    for asked, line in (
        ((), "rows +epsilon 0 +no limit"),
        ((*limited, "--data-set", "2026"), "2026 +epsilon 0 +of 4; 4 is left"),
        ((*limited, "--delta", "1e-6"), "delta 0 +of 1e-06"),
    ):
        assert re.search(line, ok("budget", *asked, *NORTH))
    assert_fails(call("budget", "--limit", "-1", *NORTH), 2, "limit")
    for half in (("--delta", "1e-6"), ("--acknowledge", "00" * 16), ("--by", "Ada Osei")):
        assert_fails(call("budget", *half, *NORTH), 2, "")
