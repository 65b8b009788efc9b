"""A role's units: systemd takes them, they take rights from the process, and they are started by the right commands."""

import os
import re
import shutil
from pathlib import Path

import pytest

from fhe_auc.base.errors import InputError
from fhe_auc.exchange.exchange import place_of
from fhe_auc.machines.service import start, texts
from tests.support.platforms import needs_linux
from tests.support.programs import run

pytestmark = needs_linux("systemd")
ANALYZE = shutil.which("systemd-analyze")
needs_analyze = pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not here (Debian: systemd)")


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of the commands that are called: systemd's stand in the path, as programs that note how."""
    noted, bin_ = tmp_path / "calls", tmp_path / "bin"
    bin_.mkdir()
    noted.touch()
    for name in ("systemctl", "systemd-sysusers", "loginctl", "chown"):
        script = (
            f'#!/bin/sh\necho "{name} $*" >>"{noted}"\ncase "$*" in\n*is-system-running) echo degraded; exit 1 ;;\n'
        )
        (bin_ / name).write_text(
            f"{script}*) test -e '{tmp_path}/refuses' || exit 0; echo no such unit >&2; exit 1 ;;\nesac\n"
        )
        (bin_ / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    return noted


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The configuration of a role whose paths have all that unit files give a meaning to."""
    folder = tmp_path / 'St. "Mary" 100 %h'
    folder.mkdir()
    (folder / "role.toml").write_text(f'exchange = "{tmp_path}/the exchange"\nstore = "store"\nstate = "state"\n')
    return folder / "role.toml"


def test_a_user_gets_units_of_his_own_that_go_on_without_him(calls: Path, config: Path, tmp_path: Path) -> None:
    assert start(config, config.parent.name, system=False) == "fhe-auc-St---Mary--100--h.service"
    both = "fhe-auc-St---Mary--100--h.service fhe-auc-St---Mary--100--h-check.timer"
    done = ["is-system-running", "daemon-reload", f"enable {both}", f"restart {both}"]
    assert calls.read_text().splitlines() == [f"systemctl --user {line}" for line in done] + [
        f"loginctl show-user {os.getuid()} --property=Linger",
        f"loginctl enable-linger {os.getuid()}",
    ]
    units = {path.name: path.read_text() for path in (tmp_path / "own" / "systemd" / "user").iterdir()}
    assert {name.rpartition("h")[2] for name in units} == {".service", "eck.service", "eck.timer"}
    assert not any("User=" in text or "ProtectHome" in text for text in units.values())


def test_root_s_folder_goes_to_a_user_without_rights_and_somebody_s_stays_his(
    calls: Path, config: Path, tmp_path: Path
) -> None:
    units = tmp_path / "units"
    place = tmp_path / "the exchange" / place_of(config.parent.name)
    (place / "members").mkdir(parents=True)
    (tmp_path / "the exchange" / "another").mkdir()
    start(config, config.parent.name, system=True, units=units)
    (service,) = [path.read_text() for path in units.glob("*h.service")]
    if os.geteuid() == 0:
        own = f"chown --no-dereference fhe-auc {place} {place}/members"
        given = [f"chown --recursive fhe-auc {config.parent}", own]
        assert [line for line in calls.read_text().splitlines() if line.startswith("chown")] == given
        assert "\nUser=fhe-auc\n" in service
        with pytest.raises(InputError, match=r"is root's, and not a folder of 'south' alone"):
            start(config, "south", system=True, units=units)
        for folder in (config.parent, place, place / "members"):
            os.chown(folder, 12345, 12345)
        calls.write_text("")
        start(config, "south", system=True, units=units)
        (service,) = [path.read_text() for path in units.glob("*south.service")]
    assert f"\nUser={config.parent.stat().st_uid}\n" in service
    assert '\nEnvironment="HOME=' in service  # where libraries look for an exchange's credentials
    assert "chown" not in calls.read_text()
    assert "--user" not in calls.read_text()


def test_two_roles_of_one_name_have_two_units_and_the_same_one_has_one(calls: Path, tmp_path: Path) -> None:
    configs = [tmp_path / study / "north" / "role.toml" for study in ("heart", "lung")]
    for config in configs:
        config.parent.mkdir(parents=True)
        config.write_text('store = "store"\n')
    first, second, again = (start(config, "north", system=False) for config in (*configs, configs[0]))
    assert first == again == "fhe-auc-north.service"
    assert re.fullmatch(r"fhe-auc-north-[0-9a-f]{8}\.service", second)
    assert start(configs[1], "north", system=False) == second
    assert len(list((tmp_path / "own" / "systemd" / "user").iterdir())) == 6


def test_without_systemd_nothing_is_installed_and_a_refusal_is_told_in_its_words(
    calls: Path, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "refuses").touch()
    with pytest.raises(InputError, match=r"^systemctl --user daemon-reload failed: no such unit$"):
        start(config, "north", system=False)
    (tmp_path / "bin" / "systemctl").write_text("#!/bin/sh\necho offline\nexit 1\n")  # as in a container
    shutil.rmtree(tmp_path / "own")
    assert start(config, "north", system=False) == ""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert start(config, "north", system=False) == ""
    assert not (tmp_path / "own").exists()


@pytest.mark.parametrize("name", ["line\nbreak", "$HOME"])
def test_a_path_that_no_unit_can_name_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "role.toml").write_text('store = "store"\n')
    with pytest.raises(InputError, match="must be printable, and without"):
        texts("unit", tmp_path / name / "role.toml", "north", "fhe-auc")


@needs_analyze
@pytest.mark.parametrize("user", ["fhe-auc", ""])
def test_systemd_takes_the_units_and_finds_a_wrong_one(user: str, config: Path, tmp_path: Path) -> None:
    verify = [str(ANALYZE), *(() if user else ("--user",)), "verify"]
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    for name, text in texts("fhe-auc-x", config, config.parent.name, user).items():
        (tmp_path / name).write_text(text)
    found = run([*verify, *map(str, tmp_path.glob("fhe-auc-x*"))], env=environment)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")
    service = tmp_path / "fhe-auc-x.service"
    service.write_text(service.read_text().replace("RestartSec=60", "RestartSec=often"))
    assert "Failed to parse sec value" in run([*verify, str(service)], env=environment).stderr


@needs_analyze
def test_systemd_takes_the_drop_ins_that_the_guide_shows(config: Path, tmp_path: Path) -> None:
    for name, text in texts("fhe-auc-x", config, "north", "fhe-auc").items():
        (tmp_path / name).write_text(text)
    guide = (Path(__file__).parents[3] / "docs" / "guide" / "operations.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```ini[^\n]*\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 2
    lines = [
        line
        for line in re.findall(r"`(\w+=[^`]*)`", guide)
        if line.split("=")[0] in {"ReadWritePaths", "IPAddressDeny"}
    ]
    (tmp_path / "fhe-auc-x-check.service.d").mkdir()
    found = ""
    for text in [*blocks, "[Service]\n" + "\n".join(lines) + "\n", "[Service]\nExecStop=relative\n"]:
        (tmp_path / "fhe-auc-x-check.service.d" / "guide.conf").write_text(text)
        assert found == ""
        found = run([str(ANALYZE), "verify", str(tmp_path / "fhe-auc-x-check.service")]).stderr
    assert "relative" in found  # the last one is none of the guide's


@needs_analyze
def test_a_unit_of_the_system_takes_from_the_process_what_it_does_not_need(config: Path, tmp_path: Path) -> None:
    for name, text in texts("fhe-auc-x", config, "north", "fhe-auc").items():
        (tmp_path / name).write_text(text)
        if name.endswith(".service"):
            rate = [str(ANALYZE), "security", "--offline=yes", "--no-pager", "--threshold=17", str(tmp_path / name)]
            found = run(rate)
            assert found.returncode == 0, found.stdout[-300:]  # an exposure of 1.7 of 10 at most
