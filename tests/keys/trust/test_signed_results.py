"""Results that stand alone: who has signed them shows, what was changed is refused, and who differs is named."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import rfc8785
import yaml
from click.testing import Result

from fhe_auc.base.errors import ResultCheckError
from fhe_auc.machines import outcomes
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.aggregator import conduct
from fhe_auc.session.party import Party
from fhe_auc_keys.errors import RevokedError, TamperedError
from fhe_auc_keys.site.key_store_sites import RESULT, Records
from fhe_auc_keys.store import known_members
from fhe_auc_keys.store.vault import own_identity
from fhe_auc_keys.trust import signed_json
from fhe_auc_keys.trust.members import Members
from tests.support.certified import NOW
from tests.support.certified import Consortium as Certified
from tests.support.command_line import call
from tests.support.stored_sites import Consortium

RESULT_OF = {"session": "5e" * 16, "manifest": "3a" * 32, "time": NOW.isoformat()}
EVALUATION = {"auc": 0.75, "interval": {"low": 0.5, "high": 0.9}, "seconds": {"submit": 1.0}, "warnings": []}


def check(*arguments: object) -> Result:
    return call("check", *map(str, arguments))


def assert_says(told: Result, why: str, status: int = 1) -> None:
    assert (told.exit_code, why in " ".join(told.output.split())) == (status, True), told.output


@pytest.fixture
def certified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Certified:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("fhe_auc_keys.cli.common.now", lambda: NOW)
    return Certified("north", "south", "west")


def published(members: Members) -> tuple[str, ...]:
    """Write the members' files; return the options that name them."""
    shutil.rmtree("members", ignore_errors=True)
    Path("members").mkdir()
    for version, file in enumerate(members.files, 1):
        Path(f"members/{version}.json").write_bytes(file)
    return "--members", "members"


def signed(certified: Certified, party: str, signer: str | None = None, **changes: Any) -> Path:
    told = {"party": party, **RESULT_OF, "evaluation": EVALUATION} | changes
    told = {name: value for name, value in told.items() if value is not None}
    path = Path(f"{party}.json")
    path.write_text(json.dumps(signed_json.sign_json(certified.identities[signer or party], RESULT, told)))
    return path


@pytest.mark.parametrize("protocol", ["verified", pytest.param("semi-honest", marks=pytest.mark.slow)])
def test_the_results_of_all_sites_are_verified_and_say_the_same(
    site_rows: list[PartyData], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    monkeypatch.chdir(tmp_path)
    consortium, files = Consortium(site_rows, tmp_path / "c", protocol), []

    def write(party: Party[Any], records: Records) -> None:
        (folder := tmp_path / party.name).mkdir()
        files.append(outcomes.write(folder, party, records.signed))

    consortium.done = write  # type: ignore[method-assign]
    conduct(consortium.aggregator(), consortium.exchange)
    with consortium.store("north") as store:
        trust = published(known_members.stored(store))
    found = json.loads(check(*files, *trust, "--json").stdout)
    told = [tuple(each[name] for name in ("party", "problem", "session", "manifest")) for each in found["results"]]
    session = (None, consortium.id.hex(), consortium.aggregator().digest.hex())
    assert (told, found["problems"]) == ([(name, *session) for name in ("north", "south", "east")], [])
    assert check(files[0], *trust).exit_code == 0  # in words
    for odd in ({"comparisons": [], "model": 5}, {"auc": 1e308}, {"estimates": 7}, {"soundness": {}}, {"seconds": []}):
        told, found = json.loads(files[0].read_text()), json.loads(files[0].read_text())["evaluation"]
        with consortium.store("north") as store:
            signed = signed_json.sign_json(own_identity(store), RESULT, told | {"evaluation": found | odd})
        Path("odd.json").write_text(json.dumps(signed))
        shown = check("odd.json", *trust)
        assert (shown.exit_code, shown.exception) == (0, None), odd
    assert check(*files, *consortium.options("south")).exit_code == 0
    written = json.loads(files[0].read_text())
    assert (written["evaluation"]["soundness"] is not None, bool(written["version"])) == (protocol == "verified", True)
    assert outcomes.read(files[0]).auc == written["evaluation"]["auc"]  # type: ignore[union-attr]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to everything in a JSON value that is no object and no list."""
    if isinstance(value, dict | list):
        for name in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[name], (*path, name))
    else:
        yield path


def test_whatever_is_changed_in_a_result_is_found(certified: Certified) -> None:
    """Blanks, the order of names, and numbers that JSON does not have change nothing."""
    counts = [{"threshold": k / 50, "tpr": [k, None], "name": "x"} for k in range(20)]
    odd = {"large": 2**60, "nan": float("nan"), "zero": -0.0, "name": "Zürich \u2028"}
    file, trust = signed(certified, "north", evaluation=EVALUATION | odd | {"counts": counts}), certified.members
    text = json.dumps(json.loads(file.read_text()), indent=4, sort_keys=True)
    evaluation = json.loads(text)["evaluation"]
    assert (evaluation["large"], evaluation["nan"]) == (str(2**60), None)
    assert signed_json.verified_signer(signed_json.parse(text), RESULT, trust, at=NOW).name == "north"
    file.write_text(text.replace('"auc": ', '"auc": 0.99, "auc": ', 1))  # readers differ about which counts
    assert_says(check(file, *published(trust)), "a name is in it twice")
    paths = list(leaves(json.loads(text)))
    assert len(paths) > 50
    changed = [json.loads(text) | more for more in ({"note": 1}, {"evaluation": None})]
    for path in paths:
        told = place = json.loads(text)
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = "?" if place[path[-1]] != "?" else "!"
        changed.append(told)
    for told, where in zip(changed, (None, None, *paths), strict=True):
        with pytest.raises(Exception, match=r".") as refused:
            signed_json.verified_signer(told, RESULT, trust, at=NOW)
        assert isinstance(refused.value, (TamperedError, RevokedError)), where


NUMBERS = [1.0, 1e16, -1e17, 2.0**60, 2.0**53, 1.5e300, 1e21, 1e23, 1e-7, 5e-324, 1 / 3, -0.0, 2**53 - 1, 2**60]
TOOLS: dict[str, Callable[[str], str]] = {
    "json": lambda text: json.dumps(json.loads(text), indent=4, ensure_ascii=False),
    "rfc8785": lambda text: rfc8785.dumps(json.loads(text)).decode(),
    "msgspec": lambda text: msgspec.json.encode(msgspec.json.decode(text)).decode(),
    "YAML": lambda text: json.dumps(yaml.safe_load(yaml.safe_dump(json.loads(text)))),
    "all digits": lambda text: json.dumps(json.loads(text, parse_float=lambda own: float(own) % 1 or int(float(own)))),
    "jq": lambda text: run("jq", ".", text),
    "node": lambda text: run("node", "-pe", "JSON.stringify(JSON.parse(fs.readFileSync(0)))", text),
}


def run(*command: str) -> str:
    *command_, text = command
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return subprocess.run(command_, input=text, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("tool", TOOLS)
def test_a_result_that_another_tool_has_written_anew_still_verifies(certified: Certified, tool: str) -> None:
    north, trust = signed(certified, "north", evaluation=EVALUATION | {"odd": NUMBERS}), published(certified.members)
    south = signed(certified, "south", evaluation=EVALUATION | {"odd": NUMBERS})
    north.write_text(TOOLS[tool](north.read_text()))
    assert_says(check(north, south, *trust), "yes", 0)  # and they say the same


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("0.75", "9007199254740993", "the number 9007199254740993 in it is not the same to every reader of JSON"),
        ("1e+16", "10000000000000001", "the number 10000000000000001 in it is not the same"),
        ("1e+16", "10000000000000002", "it was changed since"),  # the next float
        ("0.75", "1e999", "the number 1e999 in it is not the same to every reader of JSON"),
        ("0.75", "NaN", "the number NaN in it is not the same to every reader of JSON"),
        ("0.75", '0.75, "auc": 0.8', "a name is in it twice"),
        ("0.3333333333333333", "0.3333333333", "it was changed since, if only a few digits"),
        ("1e+16", '"1e+16"', "if only a few digits"),  # YAML 1.1 has no float without a point
    ],
)
def test_of_a_result_that_was_written_anew_and_does_not_verify_people_read_why(
    certified: Certified, before: str, after: str, why: str
) -> None:
    file = signed(certified, "north", evaluation=EVALUATION | {"odd": NUMBERS})
    file.write_text(file.read_text().replace(before, after, 1))
    assert_says(check(file, *published(certified.members)), why)


REFUSAL = {"type": "ResultCheckError", "message": "refused"}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"evaluation": EVALUATION | {"auc": 0.8}}, "auc 0.8, not 0.75"),
        ({"evaluation": EVALUATION | {"interval": None}}, "interval None, not"),
        ({"evaluation": EVALUATION | {"soundness": 0.5}}, "soundness 0.5, not None"),
        ({"manifest": "00" * 32}, "another manifest, 0000"),
        ({"evaluation": None, "error": REFUSAL}, "no result: ResultCheckError: refused, not AUC 0.75"),
        ({"evaluation": EVALUATION | {"seconds": {"submit": 2.0}, "warnings": ["own rows"]}}, None),
    ],
)
def test_sites_that_say_different_things_are_named(
    certified: Certified, changes: dict[str, Any], told: str | None
) -> None:
    files = [signed(certified, "north"), signed(certified, "south", **changes), signed(certified, "west")]
    found = check(*files, *published(certified.members), "--json")
    problems = json.loads(found.stdout)["problems"]
    assert (found.exit_code, len(problems)) == ((1, 1) if told else (0, 0))
    if told:
        assert re.search(f"south.json: differs from .*north.json .'north'.: {told}", problems[0]), problems


def test_sessions_have_a_line_each_and_only_those_of_one_are_compared(certified: Certified) -> None:
    files = [signed(certified, "north"), signed(certified, "south", session="00" * 16, evaluation={"auc": 0.25})]
    files.append(signed(certified, "west", session="00" * 16, evaluation={"auc": 0.5}))
    found = json.loads(check(*files[:2], *published(certified.members), "--json").stdout)
    assert [(each["parties"], each["result"]) for each in found["sessions"]] == [
        (["north"], "AUC 0.75 (0.5 to 0.9)"),
        (["south"], "AUC 0.25"),
    ]
    assert_says(check(*files[:2], *published(certified.members)), f"{'00' * 16} south", 0)
    assert_says(check(*files, *published(certified.members)), "differs from south.json ('south'): auc 0.5", 1)


def test_who_signs_in_anothers_name_and_who_is_no_member_are_refused(certified: Certified) -> None:
    forged, file = signed(certified, "west", signer="south"), signed(certified, "north")
    assert_says(check(forged, *published(certified.members)), "signed by 'south', and said to be another's")
    assert_says(check(file, *published(Certified("north").members)), "it is not what 'north' has signed")
    assert_says(check(file, *published(Certified("south").members)), "'north' is no member in version 2")


def test_a_result_counts_after_its_signer_has_left_or_has_new_keys_unless_the_old_ones_were_stolen(
    certified: Certified,
) -> None:
    north, south, west = (signed(certified, name) for name in ("north", "south", "west"))
    certified.change(remove=["south"])
    certified.rekey("west")
    trust = published(certified.members)
    assert check(north, south, west, *trust).exit_code == 0
    assert check(signed(certified, "west"), *trust).exit_code == 0  # with the new ones
    assert_says(check(signed(certified, "south"), *trust), "'south' is no member in version 4")
    certified.change(remove=["north"], stolen=True)
    assert_says(check(north, *published(certified.members)), "the keys that 'north' had were stolen")


SIGNATURE = '"signature": {"ed25519": "", "signer": "north", "members": 2}'


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", "{}", "nonsense", "[" * 100_000, '{"signature": 1, "time": 2}', '{"time": NaN}', "\udcff"),
        *('{"a": ' + "[" * depth + "]" * depth + "}" for depth in (400, 600, 900)),
        *(f'{{{SIGNATURE}, "time": "{time}"}}' for time in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00")),
    ],
)
def test_what_is_no_result_is_refused_in_words(certified: Certified, content: str) -> None:
    (file := Path("r.json")).write_text(content, errors="surrogateescape")
    found = check(file, *published(certified.members))
    assert (found.exit_code, "REFUSED" in found.stdout, found.stderr) == (1, True, "")


@pytest.mark.parametrize("name", ["bad\x1b[2Jname\u202e", "long" * 1000])
def test_whatever_a_site_signs_steers_no_terminal_and_floods_none(certified: Certified, name: str) -> None:
    told = EVALUATION | {f"{name} {number}": f"\x1b[2J{name}" for number in range(1000)}
    files = [signed(certified, "north"), signed(certified, "south", evaluation=told)]
    files[1] = files[1].rename("south\x1b[2J.json")
    files.append(signed(certified, "west", session=name))
    found = check(*files, *published(certified.members))
    assert_says(found, "and 991 more")
    assert all(each.isprintable() or each == "\n" for each in found.output)
    assert len(found.output) < 6000


def test_what_a_site_signs_that_is_no_result_is_refused(certified: Certified) -> None:
    besides = {"type": "ResultCheckError", "message": "besides the evaluation"}
    trust = published(certified.members)
    changes = {"session": None}, {"evaluation": None}, {"evaluation": 1}, {"manifest": 5}, {"error": besides}
    for each in changes:
        file = signed(certified, "north", **each)
        assert_says(check(file, *trust), "has signed something that is no result")
    assert_says(check(file), "whose signatures count?", status=2)
    told = {"party": "north", **RESULT_OF, "evaluation": EVALUATION}  # as a line of its audit trail
    file.write_text(json.dumps(signed_json.sign_json(certified.identities["north"], b"audit line 1", told)))
    assert_says(check(file, *trust), "it is not what 'north' has signed")


def test_an_error_is_signed_as_a_result_is(certified: Certified) -> None:
    def result() -> object:
        raise ResultCheckError("refused", check="echo")

    def sign(told: Any) -> dict[str, Any]:
        return signed_json.sign_json(certified.identities["north"], RESULT, {**told, "time": NOW.isoformat()})

    manifest = SimpleNamespace(session=bytes(16), digest=bytes(32), step=0)
    refusing: Any = SimpleNamespace(name="north", manifest=manifest, result=result)
    found = check(outcomes.write(Path(), refusing, sign), *published(certified.members), "--json")
    assert json.loads(found.stdout)["results"][0]["result"] == "no result: ResultCheckError: refused"
