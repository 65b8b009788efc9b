"""``fhe-auc keys`` as the engineers of a consortium meet it: each refusal is one line and the right status."""

import base64
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from fhe_auc import bfv
from fhe_auc.base.clock import SYSTEM
from fhe_auc.base.errors import InputError
from fhe_auc.cli import main
from fhe_auc.machines import outcomes
from fhe_auc.machines.answers import answer
from fhe_auc.machines.site_state import Records, site_storage
from fhe_auc.question import thresholds
from fhe_auc.rlwe import parameters as ring
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.aggregator import conduct
from fhe_auc.session.party import Party
from fhe_auc_keys.bundles.sealed_bundles import Kept
from fhe_auc_keys.bundles.session_keys import public_context
from fhe_auc_keys.cli import keys as group
from fhe_auc_keys.cli.common import file_stem
from fhe_auc_keys.store.key_store import is_in
from fhe_auc_keys.store.vault import Vault, create_with_random_passphrase
from fhe_auc_keys.trust.identity import Identity
from tests.support.certified import STUDY
from tests.support.keys_commands import (
    Clock,
    assert_fails,
    call,
    join,
    json_of,
    ok,
    open_as,
    open_as_aggregator,
    store_of,
    write_study,
)
from tests.support.keys_folder import (
    ADDER,
    NORTH,
    SESSION,
    SITES,
    SMALL,
    SOUTH,
    at,
)
from tests.support.platforms import full_disk, needs_modes
from tests.support.programs import run
from tests.support.wire import flipped

pytestmark = pytest.mark.usefixtures("consortium")
NOISY = ("--protocol", "dpauc-laplace", "-o", "epsilon=1", "--thresholds", "uniform:8")


# --- The way it is meant ----------------------------------------------------------------------------------------------


def test_the_aggregator_alone_gets_keys_that_it_can_load_and_nothing_else() -> None:
    why = "'south' is not, with the keys that it has now, the aggregator of the session"
    assert_fails(open_as_aggregator(*SOUTH), 1, why)
    Path("bad.bundle").write_bytes(flipped(Path("week/aggregator.bundle").read_bytes(), -1))
    assert_fails(open_as_aggregator(bundle="bad.bundle"), 1, "bad.bundle: .*damaged")
    assert not Path("aggregator.keys").exists()
    result = open_as_aggregator("--json")
    assert (result.exit_code, result.stderr) == (0, "")
    told = json.loads(result.stdout)
    context, opening = public_context(Path("aggregator.keys").read_bytes())
    assert bfv.load_public(context).fingerprint.hex() == told["context"]
    assert opening
    assert (told["holder"], list(told["parties"]), list(told["aggregator"])) == ("north", list(SITES), [ADDER])


def test_a_session_without_keys_from_the_command_to_the_result(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the commands leave in stores and files is what the roles of a session start from."""
    monkeypatch.setattr(SYSTEM, "now", clock)
    asked = ("--protocol", "dpauc-laplace", "-o", "epsilon=4", "--thresholds", "uniform:16", "--out", "noisy")
    assert re.search("convened by +north", ok(*SESSION, *asked).stdout)
    assert [path.name for path in Path("noisy").iterdir()] == ["session.convened"]
    told = json.loads(open_as_aggregator("--json", bundle="noisy/session.convened").stdout)
    rows = {}
    for number, name in enumerate(SITES):
        assert json.loads(open_as(name, "noisy/session.convened", "--json").stdout)["session"] == told["session"]
        assert_fails(open_as(name, "noisy/session.convened"), 1, "has been opened before")
        rows[name] = PartyData.from_arrays(name, [0, 1, 1, 0, 1], np.array([1, 5, 9, 6, 3 + number]) / 10)
    assert {result["keys"] for result in played("noisy/session.convened", rows).values()} == {"none"}


ROLES = {
    name: {"store": f"{name}/store", "passphrase-file": f"{name}/passphrase", "holder": "north"}
    for name in (*SITES, ADDER)
}


def played(session_file: str, rows: Mapping[str, PartyData]) -> dict[str, dict[str, Any]]:
    """Play a session between the stores; return the evaluation in each site's result."""
    told = {}

    def done(party: Party[Any], records: Records) -> None:
        told[party.name] = json.loads(outcomes.write(Path(party.name), party, records.signed).read_text())["evaluation"]

    def exchange(message: bytes) -> Iterator[tuple[str, bytes]]:
        for name in SITES:
            with site_storage().site(ROLES[name]) as kept:
                yield name, answer(kept, message, lambda name, _: rows[name], done)

    conduct(site_storage().aggregator({**ROLES[ADDER], "session": session_file}).aggregator(), exchange)
    assert told.keys() == {*SITES}
    return told


def test_thresholds_found_in_one_session_are_what_parties_take_the_next_for() -> None:
    """Sites exchange files: the first session finds quantiles, its result is a file, and the second is for these."""
    first = ok(*SESSION, "--backend", "tenseal", "--thresholds", "quantile:8", "--out", "first", "--json")
    assert json.loads(first.stdout)["protocol"] == "boundaries-federated"
    assert "this session finds the thresholds" in first.stderr
    thresholds.save("found.txt", np.arange(8) / 16)
    ok(*SESSION, "--backend", "tenseal", "--thresholds", "found.txt", "--out", "second")
    thresholds.save("other.txt", np.arange(8) / 8)
    refused = open_as("south", "second/south.bundle", "--thresholds", "other.txt")
    assert_fails(refused, 1, "the session is for other thresholds than those agreed on")
    agreed = open_as("south", "second/south.bundle", "--thresholds", "found.txt")  # a refused bundle is not used up
    assert agreed.exit_code == 0, agreed.output
    assert_fails(open_as_aggregator("--thresholds", "found.txt"), 2, "--thresholds is for parties")


QUANTILES = ("--backend", "tenseal", "--thresholds", "quantile:8")
GROUPED = ("--thresholds", "uniform:10", "--score-columns")


@pytest.mark.parametrize(
    ("asked", "facts", "lines"),
    [
        (NOISY, {"files": {"everybody": "made/session.convened"}}, ("convened by +north", r"option +epsilon +1\.0")),
        (
            (*QUANTILES, "--protocol", "histogram-distributed-dp", "-o", "epsilon=1", "-o", "height=6"),
            # a quarter of both sessions' budget
            {"protocol": "boundaries-distributed-dp", "thresholds": 64, "options": {"bins": 8, "epsilon": 0.25}},
            ("thresholds +8 +to be found, from counts in 64 cells of scores", r"option +epsilon +0\.25"),
        ),
        (
            ("--protocol", "verified", "--round-scores", "2"),
            {"thresholds": 101, "options": {"interval": 0.95, "round_scores": 2}, "max_rows": 10**6, "min_rows": None},
            ("rows +at most 1,000,000 +of all parties together",),
        ),
        (
            (*GROUPED, "risk_a,risk_b", "--by", "sex=F,M"),
            {"models": ["risk_a", "risk_b"], "by": [{"name": "sex", "levels": ["F", "M"]}]},
            ("groups +sex: F, M", "models +risk_a, risk_b"),
        ),
        (
            (*GROUPED, "a,b,c", "--cluster", "patient_id", "--each-pair"),
            {"cluster": "patient_id", "each_pair": True},
            ("patients +patient_id", "models +a, b, c +columns of scores; each is compared with each"),
        ),
        (
            (*SMALL, "--epsilon", "0.5", "--keys", "helper", "--helper", "registry"),
            {"options": {"colluders": 0, "epsilon": 0.5, "epsilon_unit": "row", "interval": 0.95}},
            (
                "epsilon +0.5 a row",
                "rows, in public +50 ",
                "row caps +proved, 30 at most",
                "released +D, T, P",
                "not cover whether a result is published",
            ),
        ),
    ],
)
def test_what_is_asked_for_goes_into_the_session_and_every_site_is_shown_it_before_it_joins(
    asked: tuple[str, ...], facts: dict[str, Any], lines: tuple[str, ...]
) -> None:
    if "--epsilon" in asked:  # row caps are numbers of rows
        write_study("study.toml", row_caps={"north": 30, "south": 20})
        join("registry")
    made = json_of(*SESSION, *asked, "--out", "made")
    assert facts.items() <= {**made, **(made["analysis"] or {})}.items()
    shown = re.sub(r"\s+", " ", open_as("south", made["files"].get("south", "made/session.convened")).stdout)
    for line in lines:
        assert re.search(line, shown), line


def test_what_cannot_be_is_refused_in_one_line_and_leaves_nothing() -> None:
    with Path("endless").open("wb") as file:
        file.truncate(2**40)
    private, both = (*QUANTILES, *NOISY[:4]), ("session", "south", *SMALL)
    rounded = ("--protocol", "verified", "--round-scores", "2")
    opening = ("open", "week/north.bundle", *NORTH, "--holder", "north")
    before = {*Path().rglob("*")}
    for missing, given in (("--aggregator", ("--study", "study.toml")), ("--study", ("--aggregator", ADDER))):
        result = CliRunner().invoke(main, ["keys", *SESSION, *SMALL, *given])
        assert_fails(result, 2, f"missing option '{missing}'")
    for asked, status, why in (
        # Sessions.
        ((*both, "--aggregator", "south", *NORTH), 1, "aggregator"),
        ((*SESSION, *QUANTILES, *rounded), 2, "every rounded score is a threshold"),
        ((*SESSION, *QUANTILES, "-o", "epsilon=1"), 2, "thresholds must not come from the rows"),
        ((*SESSION, *QUANTILES, "--protocol", "exact", "--epsilon", "1"), 2, "'exact' has no option 'epsilon'"),
        ((*SESSION, *private, "--protocol", "histogram-local-dp"), 2, "encrypts nothing: backend does not apply"),
        ((*SESSION, *private), 2, "has no private way to find quantile thresholds"),
        ((*SESSION, "--keys", "helper"), 2, "--keys helper and --helper go together"),
        ((*SESSION, *SMALL, "--epsilon", "0.5"), 2, "take a helper .* and a row cap of each site"),
        ((*SESSION, *SMALL, "--min-parties", "9"), 2, "min_parties must lie between"),
        ((*SESSION, "--by", "sex", *SMALL), 2, "which levels does 'sex' have"),
        ((*SESSION, "--by", "sex=F,M", *SMALL, "--protocol", "semi-honest"), 2, "answers for one model over all rows"),
        ((*SESSION, *SMALL, "--days", "32"), 2, "--days"),
        ((*both, "south", *NORTH), 2, "parties 'south' and 'south' would be two"),
        ((*both, "suoth", *NORTH), 1, "'suoth' is no member in version 2 .*did you mean 'south'"),
        ((*both, "--store", "void/store"), 1, "no key store in 'void/store': .*join LINK NAME"),
        # Which store and which file.
        (("open", "week/aggregator.bundle", "--holder", "north", *at(ADDER)), 2, "as the aggregator, give --out"),
        (opening[:6], 2, "missing option '--holder'"),
        (("open", "x", "--holder", "north"), 2, "x' does not exist"),
        ((*opening, "--out", "x"), 1, "not a aggregator bundle"),
        # Files of others that never end are not read.
        (("open", "endless", "--holder", "north", *SOUTH), 2, "'endless' is longer than 268,435,456 bytes"),
    ):
        assert_fails(call(*asked), status, why)
    assert {*Path().rglob("*")} == before


def test_sites_may_be_away_with_a_helper_alone_and_who_convenes_is_told_where_the_study_has_no_most_away() -> None:
    join("registry", "east")
    asked = (*SESSION, "east", "--thresholds", "uniform:8", "--min-parties", "2")
    assert_fails(call(*asked, "--out", "sealed"), 2, r"all parties must submit.* take a helper: .*--keys helper")
    helped = (*asked, "--keys", "helper", "--helper", "registry", "--out")
    warned = "--min-parties lets sites be away, but the study has no most-away"
    assert warned in ok(*helped, "unsaid").stderr.replace("\n", " ")
    write_study("study.toml", most_away=1)
    made = ok(*helped, "week-20")
    assert warned not in made.stderr.replace("\n", " ")
    assert "most away 1" in " ".join(made.stdout.split())


def test_every_command_answers_scripts_with_one_json_object() -> None:
    session = json_of("session", *SITES, *SOUTH, *SMALL)
    assert set(session["files"]) == {"everybody", "the aggregator", *SITES}
    assert Path(session["files"]["north"]) == Path(f"session-{session['session'][:8]}", "north.bundle")
    opened = json.loads(open_as("north", session["files"]["north"], "--json", holder="south").stdout)
    assert {name: opened[name] for name in session if name != "files"} | {"files": session["files"]} == session


@needs_modes
@pytest.mark.parametrize("umask", [0, 0o077])
def test_what_is_written_is_private_or_for_all_who_reach_the_folder_whatever_the_umask(umask: int) -> None:
    """Those who carry files are other users; what is sealed may be read by anybody."""
    Path("exchange").chmod(0o2770)
    before = os.umask(umask)
    try:
        ok("session", "south", "north", *NORTH, "--out", "exchange/w", *SMALL)
        assert open_as_aggregator(bundle="exchange/w/aggregator.bundle").exit_code == 0
        join("east")
    finally:
        os.umask(before)
    request = Path("exchange/east/request")
    written = (*Path("exchange/w").iterdir(), Path("exchange/w"), request, Path("aggregator.keys"))
    sent = "session.announcement", "aggregator.bundle", "north.bundle", "south.bundle", "request"
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in written} == {
        **dict.fromkeys(sent, 0o644),
        "w": 0o2770 | 0o777 & ~umask,
        "aggregator.keys": 0o600,
    }
    assert {path.stat().st_mode & 0o077 for path in (Path("east"), *Path("east").rglob("*"))} == {0}


def test_nothing_secret_is_printed_or_sent(template: tuple[Path, list[Result]]) -> None:
    said = [*template[1], *(open_as(name) for name in SITES), open_as_aggregator()]
    said += [ok("show", *at(name), *more) for name in SITES for more in ((), ("--json",))]
    secrets = []
    for name in SITES:
        with store_of(name) as store:
            identity = Identity.from_bytes(store.get("identity", "own"))
            secrets += [identity.keys.signing.private_bytes_raw(), *identity.keys.encryption.components]
            (session,) = store.names("bundle")
            material = Kept.stored(store, bytes.fromhex(session)).material
            secrets += [material[-32:], material[-200:-160]]
    printed = "".join(result.output for result in said)
    assert "link" in printed
    spelled = re.sub(r"\s", "", printed)
    for secret in secrets:
        assert secret.hex()[:32] not in spelled  # as much as one line holds
        assert base64.b64encode(secret).decode() not in spelled
    assert all(Path(name, "passphrase").read_text().strip() not in printed for name in SITES)
    files = [path for path in Path().rglob("*") if path.is_file()]
    assert len(files) > 15
    for path in files:
        data = path.read_bytes()
        assert not any(secret in data for secret in secrets), path


# --- Refusals ---------------------------------------------------------------------------------------------------------


def test_a_bundle_opens_once_for_its_party_and_is_not_used_up_where_it_is_refused() -> None:
    path = Path("week/north.bundle")
    whole = path.read_bytes()
    path.write_bytes(flipped(whole, -100))
    assert_fails(open_as("north"), 1, "week/north.bundle: .*(damaged|forged)")
    path.write_bytes(whole)
    write_study("agreed.toml", outcome="death in hospital")
    for opened, status, why in (
        (open_as("north", study="agreed.toml"), 1, "week/north.bundle: .* differs in outcome"),
        (open_as("north", "week/session.announcement"), 1, "made by a key holder: open its bundle"),
        (open_as("north", "week/south.bundle"), 1, "week/south.bundle: .* not 'north'"),
        (open_as("north", holder="south"), 1, "signed by 'north', not by 'south'"),
        (open_as("north", None, "--session", "00" * 16), 1, "week/north.bundle: the bundle is for session"),
        (open_as("north", None, "--session", "00"), 2, "expected 32 hexadecimal digits"),
    ):
        assert_fails(opened, status, why)
    assert json_of("show", *NORTH)["sessions"] == {}
    assert open_as("north").exit_code == 0
    assert_fails(open_as("north"), 1, "week/north.bundle: .*opened before")
    ok(*SESSION, "--study", "agreed.toml", "--out", "right", *SMALL)
    assert open_as("north", "right/north.bundle", study="agreed.toml").exit_code == 0


def test_a_bundle_for_a_library_that_is_not_here_is_not_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(ring, "_why_not", lambda name: "it is not installed")
        for refused in (open_as("north"), open_as_aggregator()):
            assert_fails(refused, 2, "backend '(openfhe|tenseal)' cannot be imported here")
        assert json_of("show", *NORTH)["sessions"] == {}
    assert (open_as("north").exit_code, open_as_aggregator().exit_code) == (0, 0)


# --- What is evaluated ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", ["sealed", pytest.param("none", marks=pytest.mark.slow)])
def test_nothing_is_opened_unless_the_study_is_confirmed(keys: str) -> None:
    file = "week/south.bundle"
    if keys == "none":
        ok(*SESSION, *NOISY, "--out", "noisy")
        file = "noisy/session.convened"
    ask = ("open", file, "--holder", "north", *SOUTH)
    assert_fails(call(*ask), 2, "nobody is there to confirm the study: give --study")
    for said in ("n\n", "\n"):
        assert_fails(call(*ask, input=said), 1, f"{file}: the study is not confirmed; nothing was kept.*")
    assert json_of("show", *SOUTH)["sessions"] == {}
    opened = ok(*ask, "--json", input="y\n")
    assert json.loads(opened.stdout)["study"] == STUDY.as_dict()
    for name in ("model", "outcome", "cohort", "period"):
        assert getattr(STUDY, name) in opened.stderr


def test_caps_of_all_parties_bound_the_pool_unless_that_is_said_otherwise() -> None:
    write_study("both.toml", row_caps={"north": 5000, "south": 70_000})
    write_study("one.toml", row_caps={"north": 5000})
    write_study("stranger.toml", row_caps={"north": 5000, "west": 70_000})
    write_study("few.toml", row_caps={"north": 30, "south": 20})
    limited = ("both.toml", "--max-rows", "9000")
    for study, expected in ((("both.toml",), 75_000), (limited, 9000), (("one.toml",), 10**6)):
        made = json_of(*SESSION, *SMALL, "--study", *study)
        assert made["max_rows"] == expected
    assert made["study"]["row_caps"] == {"north": 5000}
    assert_fails(call(*SESSION, *SMALL, "--study", "stranger.toml"), 2, "row-caps: 'west' is not a party")
    few = (*SESSION, "--protocol", "semi-honest", *SMALL, "--study", "few.toml", "--min-rows", "51")
    assert_fails(call(*few), 2, "--min-rows is 51, but the study's row caps allow 50 rows in all")


def test_listed_score_values_are_the_session_s_thresholds_and_no_others_go_with_them() -> None:
    write_study("points.toml", score_values="0:9")
    made = json_of(*SESSION, "--study", "points.toml")
    assert (made["study"]["score_values"], made["thresholds"]) == ("0:9", 21)
    for option in (("--thresholds", "uniform:5"), ("--round-scores", "2")):
        assert_fails(call(*SESSION, "--study", "points.toml", *option), 2, "lists score values, .*: take no others")


def test_a_site_with_more_rows_than_its_cap_answers_nothing(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SYSTEM, "now", clock)
    write_study("capped.toml", row_caps={"north": 4, "south": 5})
    ok(*SESSION, "--study", "capped.toml", "--out", "capped", *SMALL)
    assert open_as("north", "capped/north.bundle", study="capped.toml").exit_code == 0
    rows = PartyData.from_arrays("north", [0, 1, 1, 0, 1], [0.1, 0.5, 0.9, 0.6, 0.3])
    joined = site_storage().aggregator({**ROLES[ADDER], "session": "capped/aggregator.bundle"})
    with site_storage().site(ROLES["north"]) as kept:
        with pytest.raises(InputError, match=r"^party 'north' has 5 rows, more than its cap in .*study, 4$"):
            answer(kept, joined.aggregator().start(), lambda *_: rows, lambda *_: None)
        assert kept.state(joined.manifest.session) is None


def test_no_file_is_overwritten_unasked() -> None:
    Path("aggregator.keys").write_bytes(b"something of mine")
    assert_fails(open_as_aggregator(), 2, "'aggregator.keys' is there already; choose another --out, or say --force")
    assert open_as_aggregator("--force").exit_code == 0
    assert_fails(open_as_aggregator("--out", "void/aggregator.keys"), 2, "there is no folder 'void'")
    assert_fails(call("session", "north", *NORTH, "--out", "week", *SMALL), 2, "'week' is not empty")


def test_names_that_are_no_file_names() -> None:
    names = ("St. Mary's / West", "St. Mary's / East", "../up")
    join(*names)
    files = json_of("session", *names, *NORTH, "--out", "next", *SMALL)["files"]
    assert {str(path.parent) for path in map(Path, files.values())} == {"next"}
    assert len(set(files.values())) == len(names) + 2
    for name in names:
        assert open_as(file_stem(name), files[name]).exit_code == 0


# --- Passphrases ------------------------------------------------------------------------------------------------------


def test_a_passphrase_is_right_or_comes_from_a_file_of_one_line_that_is_its_owner_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = Path("north/passphrase")
    passphrase = path.read_text().strip()
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


def test_the_passphrase_is_asked_for_and_never_shown() -> None:
    passphrase = Path("north/passphrase").read_text().strip()
    result = ok("show", "--store", "north/store", input=f"{passphrase}\n")
    assert result.stderr.startswith("Passphrase of key store 'north/store'")
    assert passphrase not in result.output


def test_without_a_terminal_there_is_advice_instead_of_a_question() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "FHE_AUC_PASSPHRASE"}
    show = [sys.executable, "-c", "from fhe_auc.cli import main; main()", "keys", "show", *NORTH[:2]]
    process = run(show, env=environment, stdin=subprocess.DEVNULL, start_new_session=True, timeout=60)
    assert (process.returncode, process.stdout) == (2, "")
    assert re.fullmatch("error: no terminal .*set FHE_AUC_PASSPHRASE or give --passphrase-file\n", process.stderr)


# --- show and help ----------------------------------------------------------------------------------------------------


def test_show_tells_programs_what_is_in_a_store_by_names_and_iso_8601_times() -> None:
    open_as("south")
    told = json_of("show", *SOUTH)
    assert (told["name"], told["members"]["version"]) == ("south", 2)
    assert told["members"]["names"] == ["north", "south", ADDER]
    (session,) = told["sessions"].values()
    assert session == {"state": "opened", "until": session["until"], "has_result": False, "end_seen": None}
    times = [datetime.fromisoformat(each) for each in (session["until"], told["members"]["ends"])]
    assert {each.utcoffset() for each in times} == {timedelta(0)}


def test_the_group_s_help_tells_the_story_in_order_and_in_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    story = call("--help").stdout
    assert re.search(r"(?s)\n  [^\n]* session .*\n  [^\n]* open ", story)
    for command in group.commands:
        assert "..." not in re.search(rf"^  {command} .*$", story, re.MULTILINE)[0]


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
        assert re.search(line, ok("budget", *asked, *NORTH).stdout)
    assert_fails(call("budget", "--limit", "-1", *NORTH), 2, "limit")
    for half in (("--delta", "1e-6"), ("--acknowledge", "00" * 16), ("--by", "Ada Osei")):
        assert_fails(call("budget", *half, *NORTH), 2, "")
