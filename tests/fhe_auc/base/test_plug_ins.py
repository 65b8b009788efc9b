"""Entry points are found as `importlib.metadata` finds them: of each package the first copy on the path."""

import sys
import zipfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from fhe_auc.base.plug_ins import PlugIn, installed
from tests.support.nothing import add_distribution

GROUP = "fhe_auc.test-group"


def known(group: str) -> list[tuple[str, str]]:
    return sorted((point.name, point.value.partition("[")[0].strip()) for point in entry_points(group=group))


def test_every_group_of_this_environment_has_the_same_entry_points() -> None:
    groups = set(entry_points().groups)
    assert {"fhe_auc.commands", "fhe_auc.protocols", "pytest11"} <= groups
    for group in groups:
        assert sorted(installed(group)) == known(group)


def test_a_second_copy_of_a_package_is_not_seen_however_its_name_is_spelt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, name in (("first", "Coin.protocol"), ("second", "coin_protocol"), ("second", "other")):
        (tmp_path / folder).mkdir(exist_ok=True)
        add_distribution(tmp_path / folder, name, GROUP, **{name.partition(".")[0]: f"{folder}:{name.lower()[:4]}"})
    (tmp_path / "second" / "egg.egg-info").mkdir()
    (tmp_path / "second" / "egg.egg-info" / "entry_points.txt").write_text(
        f"# [{GROUP}]\n[fhe_auc.else]\nno=no:no\n [{GROUP}] \n\n# no = no:no\nold=egg:old [extra]\n  blank = egg:a.b\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path / "first"), str(tmp_path / "second"), str(tmp_path / "none")])
    found = [("Coin", "first:coin"), ("blank", "egg:a.b"), ("old", "egg:old"), ("other", "second:othe")]
    assert sorted(installed(GROUP)) == known(GROUP) == found
    assert installed("fhe_auc.test") == []
    (tmp_path / "none").touch()  # no folder, so that `importlib.metadata` is asked
    assert sorted(installed(GROUP)) == found


def test_what_is_in_an_archive_is_found_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_distribution(tmp_path, "coin", GROUP, coin="coin:toss")
    with zipfile.ZipFile(tmp_path / "coin.zip", "w") as archive:
        for file in (tmp_path / "coin-1.0.dist-info").iterdir():
            archive.write(file, f"coin-1.0.dist-info/{file.name}")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "coin.zip")])
    assert installed(GROUP) == [("coin", "coin:toss")]


def test_a_plug_in_is_loaded_whatever_it_names() -> None:
    assert PlugIn("join", "os:path.join").load() is __import__("os").path.join
    for value, error in (("no_such_module:name", ModuleNotFoundError), ("os:none", AttributeError), ("", ValueError)):
        with pytest.raises(error):
            PlugIn("broken", value).load()
