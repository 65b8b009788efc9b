"""The wheel `fhe-auc-device`, in an environment with the three packages that it depends on: its records count."""

import json
import re
import sys
import zipfile
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from fhe_auc_keys.fleet import tables
from fhe_auc_keys.fleet.device import Record
from tests.support import programs
from tests.support.fleet_sessions import CAP, Play, fraction_of
from tests.support.programs import output_of

pytest.importorskip("tomllib", reason="the wheel is built on Python 3.11 or later")
ROOT = Path(__file__).parents[3]
NEEDED = "cryptography", "cffi", "msgspec", "numpy", "pycparser", "typing_extensions"
DEVICE = """
import json, sys
from datetime import datetime
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fhe_auc_device import Device, Floor, Members, PartyData, open_announcement
given = json.load(sys.stdin)
bytes_of = lambda name: bytes.fromhex(given[name])
trust, at = Members(tuple(map(bytes.fromhex, given["files"]))), datetime.fromisoformat(given["at"])
announced = open_announcement(bytes_of("announcement"), trust, holder=given["holder"], at=at)
device = Device(announced, given["index"], Ed25519PrivateKey.from_private_bytes(bytes_of("key")), Floor(4, 0.25))
rows = PartyData.from_arrays("me", given["labels"], given["scores"])
if "part" in given:
    evaluation = device.read(rows, bytes_of("response_key"), bytes_of("part"), bytes_of("sums"))
    print(json.dumps([evaluation.fraction.numerator, evaluation.fraction.denominator]))
else:
    submitted = device.submit(rows, b"")
    print(json.dumps([each.hex() for each in (*submitted.record[1:], submitted.response_key)]))
    others = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names) - {"__main__"}
    print(*sorted(name for name in others if not name.startswith(("_", "fhe_auc"))), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel, laid out as pip does, and with what it depends on."""
    folder = tmp_path_factory.mktemp("device")
    output_of([sys.executable, str(ROOT / "scripts/device_wheel.py"), str(folder)])
    output_of([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")])
    (packages,) = (folder / "venv").glob("[Ll]ib/**/site-packages")
    (wheel,) = folder.glob("fhe_auc_device-*.whl")
    zipfile.ZipFile(wheel).extractall(packages)
    for name in NEEDED:
        for file in distribution(name).files or ():
            top = packages / file.parts[0]
            if ".." not in file.parts and "__pycache__" not in top.parts and not top.exists():
                top.symlink_to(distribution(name).locate_file(file.parts[0]))
    return next((folder / "venv").glob("[bS][ic][nr]*/python*"))


Run = Callable[..., CompletedProcess[str]]


@pytest.fixture
def run(environment: Path) -> Run:
    """Run a device of a session with this index, and what else it has, as JSON."""

    def ran(play: Play, index: int, **more: str) -> CompletedProcess[str]:
        rows, made = play.rows[index], play.consortium
        told = {
            "files": [each.hex() for each in made.members.files], "announcement": play.announcement.hex(),
            "holder": made.holder, "at": made.at.isoformat(), "index": index,
            "key": play.keys[index].private_bytes_raw().hex(), "labels": rows.labels.tolist(),
            "scores": rows.y_score.tolist(), **more,
        }  # fmt: skip
        return programs.run([str(environment), "-I", "-c", DEVICE], input=json.dumps(told))

    return ran


def test_the_page_imports_what_it_has(environment: Path) -> None:
    page = (ROOT / "docs/guide/devices.md").read_text("utf-8")
    (line,) = re.findall(r"^    (from fhe_auc_device import .*)$", page, re.M)
    output_of([str(environment), "-I", "-c", line])


def test_servers_count_its_record_and_it_reads_the_sums(tmp_path: Path, run: Run) -> None:
    play = Play(tmp_path, 5)
    assert play.rows[2].rows <= CAP
    answer = run(play, 2)
    assert answer.returncode == 0, answer.stderr
    assert set(answer.stderr.split()) <= {"cryptography", "msgspec", "numpy", "sitecustomize", "typing_extensions"}
    sketch, blob, signature, key = map(bytes.fromhex, json.loads(answer.stdout))
    play.write([record if record.member != 2 else Record(2, sketch, blob, signature) for record in play.records])
    play.to_the_end()
    sums = tables.read_file(play.place("answers/sums"))
    answer = run(play, 2, response_key=key.hex(), part=play.parts()[2].hex(), sums=sums.hex())
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout) == [*fraction_of(play.rows).as_integer_ratio()]


def test_beside_the_other_package_no_session_opens(environment: Path, tmp_path: Path, run: Run) -> None:
    (packages,) = environment.parents[1].glob("[Ll]ib/**/site-packages")
    other = packages / "fhe_auc-1.0.dist-info"
    other.mkdir()
    (other / "entry_points.txt").write_text(
        "[fhe_auc.protocols]\nexact = fhe_auc_protocols.exact_auc.exact_protocols:Exact\n"
    )
    try:
        play = Play(tmp_path, 4)
        answer = run(play, 1)
    finally:
        (other / "entry_points.txt").unlink()
        other.rmdir()
    assert answer.returncode
    assert "more than one package brings protocol 'exact'" in answer.stderr
    assert "remove one" in answer.stderr
