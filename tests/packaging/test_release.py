"""Sites install what is locked by hash, the image names what is there, and what is published is whole."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import click
import pytest
import yaml
from packaging.requirements import Requirement

import fhe_auc
from fhe_auc.cli import main
from tests.support.programs import output_of, run

ROOT = Path(__file__).parents[2]
SITES = ROOT / "requirements" / "sites.txt"
PYTHONS = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PLATFORMS = (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"), ("win32", "AMD64"))
GIT = shutil.which("git")


def wanted(requirements: list[str], python: str, system: str, machine: str) -> list[Requirement]:
    """What of the requirements is installed on a platform."""
    there = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "sys_platform": system,
        "platform_machine": machine,
    }
    found = [Requirement(each) for each in requirements]
    return [each for each in found if each.marker is None or each.marker.evaluate(there)]


@pytest.mark.parametrize("path", sorted(SITES.parent.glob("*.txt")), ids=lambda path: path.stem)
def test_every_requirement_has_a_hash_and_the_version_of_the_constraints(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    entries = re.split(r"\n(?=[a-z])", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).strip())
    assert all(re.match(r"[\w.-]+==\S+", entry) and "--hash=sha256:" in entry for entry in entries)
    assert "://" not in text  # no index of somebody's
    pinned = r"^([\w.-]+==[^\s;]+)"
    constraints = set(re.findall(pinned, (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE))
    others = set(re.findall(pinned, text, re.MULTILINE)) - constraints
    assert not others or path.stem == "release"  # its tools are installed nowhere else


@pytest.mark.parametrize("name", ["README.md", "docs/guide/operations.md", "Dockerfile", "scripts/try_debian.sh"])
def test_guide_and_image_install_what_is_locked_by_hash_and_from_wheels_alone(name: str) -> None:
    text = re.sub(r" *\\\n *", " ", (ROOT / name).read_text(encoding="utf-8"))
    installs = re.findall(r"^[^`\n]*\bpip\b.* install .*$", text, re.MULTILINE)
    locked = [line for line in installs if "--no-deps" not in line]
    files = [path for line in locked for path in re.findall(r"-r (\S+)", line)]
    assert files == ["requirements/build.txt", "requirements/sites.txt"]
    assert all(" --only-binary :all: --require-hashes -r " in line for line in locked)


def test_the_image_takes_no_other_file() -> None:
    allowed = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    assert all((ROOT / name).exists() for name in allowed)


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize(("system", "machine"), PLATFORMS)
def test_what_pyproject_asks_for_is_locked_once_on_every_platform(python: str, system: str, machine: str) -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (lines,) = re.findall(r"^dependencies = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    asked = wanted(re.findall(r'^ +"(.+?)"', lines, re.MULTILINE), python, system, machine)
    files = [path.read_text(encoding="utf-8") for path in (SITES, SITES.with_name("build.txt"))]  # installed together
    entries = [entry for file in files for entry in re.findall(r"^(\w.+?) \\$", file, re.MULTILINE)]
    locked = {(each.name, str(each.specifier).removeprefix("==")) for each in wanted(entries, python, system, machine)}
    versions = dict(locked)
    assert len(versions) == len(locked)
    assert all(each.specifier.contains(versions[each.name]) for each in asked)
    assert ("openfhe" in versions) == ((system, machine) == PLATFORMS[0] and python in ("3.10", "3.12"))


def test_what_the_image_the_units_and_their_pages_call_are_commands() -> None:
    plug_ins = (
        (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition('"fhe_auc.commands"]')[2].partition("\n[")[0]
    )
    known = {*main.list_commands(click.Context(main)), *re.findall(r"^([\w-]+) =", plug_ins, re.MULTILINE)}
    files = [ROOT / "compose.yaml", *(ROOT / "fhe_auc" / "machines" / "units").iterdir()]
    files += [ROOT / "docs" / "guide" / f"{name}.md" for name in ("operations", "hospital")]
    text = "".join(path.read_text(encoding="utf-8") for path in files)
    called = re.findall(r"(?:[`/]fhe-auc |\$program |command: \[|CMD, fhe-auc, )([a-z][a-z-]*)\b", text)
    assert {"serve", "status", "evaluate"} <= set(called) <= known


def test_one_version_stands_wherever_there_is_one_and_the_demo_of_three_sites_runs_without_rights() -> None:
    asked = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert asked is not None
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    latest = re.search(r"^## \[(\d.+)\] - (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert latest is not None
    assert fhe_auc.__version__ == asked[1] == cited["version"] == latest[1]
    assert str(cited["date-released"]) == latest[2]
    assert {"cff-version", "message", "title", "authors"} <= cited.keys()  # what its format requires
    services = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
    assert all((each["read_only"], each["cap_drop"]) == (True, ["ALL"]) for each in services.values())
    service = services["demo"]
    assert service["network_mode"] == "none"
    folder = ROOT / service["volumes"][0].split(":")[0]
    assert {path.name for path in folder.iterdir()} == {name for name in service["command"] if name.endswith(".csv")}


@pytest.mark.slow
def test_the_same_sources_give_the_same_wheel_wherever_and_whenever_it_is_built(tmp_path: Path) -> None:
    digests = []
    for folder, time in (("here", 1_000_000_000), ("somewhere else", 1_700_000_000)):
        copy = tmp_path / folder
        copy.mkdir()
        for name in ("pyproject.toml", "README.md", "LICENSE", "fhe_auc", "keys", "protocols", "benchmarks"):
            source, target = ROOT / name, copy / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
        for path in copy.rglob("*"):
            os.utime(path, (time, time))
        build = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(copy / "dist"), str(copy)]
        output_of(build, env={**os.environ, "SOURCE_DATE_EPOCH": "1600000000"})
        (wheel,) = (copy / "dist").glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (name,) = [each for each in archive.namelist() if each.endswith("/METADATA")]
            _, _, long_description = archive.read(name).decode().partition("\n\n")
        assert "## Across real sites" in long_description
        assert not re.search(r"\]\((?!https?://)", long_description), "such a link leads nowhere on an index"
        digests.append((wheel.name, hashlib.sha256(wheel.read_bytes()).hexdigest()))
    assert digests[0] == digests[1]


@pytest.mark.slow
@pytest.mark.skipif(GIT is None or not (ROOT / ".git").exists(), reason="git knows what the sources should hold")
def test_the_published_sources_hold_all_that_is_in_git_and_no_stray_file(tmp_path: Path) -> None:
    listed = output_of([str(GIT), "ls-files", "-z"], cwd=ROOT, timeout=60)
    tracked = {name for name in listed.split("\0") if name and (ROOT / name).exists()}
    output_of([sys.executable, "-m", "build", "--no-isolation", "--sdist", "--outdir", str(tmp_path), str(ROOT)])
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as found:
        names = {name.partition("/")[2] for name in found.getnames()}
    assert tracked <= names
    assert {name.split("/")[0] for name in names} == {name.split("/")[0] for name in tracked} | {"PKG-INFO"}


CHANGELOG = """# Changelog

## [Unreleased]

- later

## [1.1.0] - 2026-02-03

The – second.

### Changed

- now ([how](a.md#b),
  [why](https://example.com)) better
- and faster

## [1.0.0] - 2026-01-02

- earlier
"""
NOTES = """The – second.

### Changed

- now ([how](https://example.org/blob/v1.1.0/a.md#b), [why](https://example.com)) better
- and faster
"""


def notes(root: Path, tag: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "scripts" / "release_notes.py"), tag, "https://example.org/blob/v1.1.0"]
    return run(command, env={**os.environ, "PYTHONUTF8": "1"}, timeout=60)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of version 1.1.0."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "release_notes.py", tmp_path / "scripts")
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.1.0"\n', encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG, encoding="utf-8")
    return tmp_path


def test_a_tag_that_is_not_the_version_or_a_version_without_a_date_releases_nothing(project: Path) -> None:
    for tag in ("v1.0.0", "1.1.0", "v1.1.0.1"):
        found = notes(project, tag)
        assert (found.returncode, found.stdout) == (1, "")
        assert f"the tag is {tag}, but the version in pyproject.toml is 1.1.0" in found.stderr
    (project / "CHANGELOG.md").write_text(CHANGELOG.replace(" - 2026-02-03", ""), encoding="utf-8")
    found = notes(project, "v1.1.0")
    assert (found.returncode, found.stdout) == (1, "")
    assert "no section of 1.1.0 with a date" in found.stderr


def test_notes_are_of_one_version_with_links_and_a_line_for_each_item_and_the_next_has_some(project: Path) -> None:
    found = notes(project, "v1.1.0")
    assert (found.returncode, found.stdout) == (0, NOTES)
    found = notes(ROOT, f"v{fhe_auc.__version__}")
    assert found.returncode == 0, found.stderr
    assert len(found.stdout.split()) > 10
