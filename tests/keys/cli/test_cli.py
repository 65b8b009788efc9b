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
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from fhe_auc import bfv
from fhe_auc.base.clock import SYSTEM
from fhe_auc.base.errors import InputError
from fhe_auc.base.quantities import chance_text
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
from fhe_auc_keys.store.vault import Vault
from fhe_auc_keys.trust.authority import Authority
from fhe_auc_keys.trust.identity import Identity
from tests.support.certified import DAY, NOW, STUDY
from tests.support.keys_commands import (
    Clock,
    assert_fails,
    call,
    fingerprint_in,
    json_of,
    make_site,
    ok,
    open_as,
    open_as_aggregator,
    request_fingerprint,
    store_of,
    write_study,
)
from tests.support.keys_folder import (
    ADDER,
    AUTHORITY,
    CREDENTIALS,
    NORTH,
    PASSPHRASE,
    SESSION,
    SITES,
    SMALL,
    SOUTH,
    TRUST,
    at,
)
from tests.support.own_certificates import Site
from tests.support.platforms import full_disk, needs_modes
from tests.support.programs import run
from tests.support.wire import flipped, mended

pytestmark = pytest.mark.usefixtures("consortium")
NOISY = ("--protocol", "dpauc-laplace", "-o", "epsilon=1", "--thresholds", "uniform:8")


# --- The way it is meant ----------------------------------------------------------------------------------------------


def test_the_aggregator_alone_gets_keys_that_it_can_load_and_nothing_else() -> None:
    why = "'south' is not, with this certificate, the aggregator of the session"
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
    shown = ok("show", "noisy/session.convened", *SOUTH).stdout
    assert "'north' is the convener agreed on is for you to know" in re.sub(r"\s+", " ", shown)
    told = json.loads(open_as_aggregator("--json", bundle="noisy/session.convened").stdout)
    rows = {}
    for number, name in enumerate(SITES):
        assert json.loads(open_as(name, "noisy/session.convened", "--json").stdout)["session"] == told["session"]
        assert_fails(open_as(name, "noisy/session.convened"), 1, "has been opened before")
        rows[name] = PartyData.from_arrays(name, [0, 1, 1, 0, 1], np.array([1, 5, 9, 6, 3 + number]) / 10)
    assert {result["keys"] for result in played("noisy/session.convened", rows).values()} == {"none"}


ROLES = {name: {"store": f"{name}/store", "holder": "north"} for name in (*SITES, ADDER)}


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
            (*SMALL, "--epsilon", "0.5", "--keys", "helper", "--helper", "registry/registry.credential"),
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
        make_site("registry")
    made = json_of(*SESSION, *asked, "--out", "made")
    assert facts.items() <= {**made, **(made["analysis"] or {})}.items()
    shown = re.sub(r"\s+", " ", open_as("south", made["files"].get("south", "made/session.convened")).stdout)
    for line in lines:
        assert re.search(line, shown), line


def test_what_cannot_be_is_refused_in_one_line_and_leaves_nothing() -> None:
    Path("other").mkdir()
    ok("ca-init", "Lung Study", *at("lung"), "--out", "other")
    ok("enrol", "east", "--store", "east")
    Path("cut").write_bytes(b"fhecred")
    with Path("endless").open("wb") as file:
        file.truncate(2**40)
    private, both = (*QUANTILES, *NOISY[:4]), ("session", "south/south.credential", *SMALL)
    rounded = ("--protocol", "verified", "--round-scores", "2")
    enrol, listed = ("enrol", "north", *NORTH), ("enrol", "north", *NORTH, "--revocation-list")
    opening = ("open", "week/north.bundle", *NORTH, "--holder", "north")
    others = "south/south.pem: the certificate is for 'south' or other keys, not for 'north'"
    adder = ("--aggregator", f"{ADDER}/{ADDER}.credential")
    endless = (
        *(("open", "endless", "--holder", "north", *SOUTH), ("show", "endless"), (*listed, "endless")),
        *(("issue", "endless", "north", *AUTHORITY), (*both, "endless", *NORTH), (*enrol, "--certificate", "endless")),
    )
    before = {*Path().rglob("*")}
    for missing, given in (("--aggregator", ("--study", "study.toml")), ("--study", adder)):
        result = CliRunner().invoke(main, ["keys", *SESSION, *SMALL, *given])
        assert_fails(result, 2, f"missing option '{missing}'")
    for asked, status, why in (
        # Sessions.
        ((*both, "--aggregator", "south/south.credential", *NORTH), 1, "aggregator"),
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
        ((*both, "south/south.credential", *NORTH), 2, "south/south.credential: 'south' is there already"),
        ((*both, "cut", *NORTH), 1, "cut: a credential is damaged"),
        ((*both, *at("void")), 1, "no key store in 'void/store': .*enrol NAME"),
        ((*both, "--store", "east"), 1, "'east' is not certified yet"),
        (("session", "south/south.credential", *AUTHORITY), 1, "holds no site's keys"),
        # Which store and which file.
        (("open", "week/aggregator.bundle", "--holder", "north", *at(ADDER)), 2, "as the aggregator, give --out"),
        (opening[:4], 2, "give one file, and --holder; or"),
        (opening[:2], 2, "missing option '--store'"),
        ((*opening, "--out", "x"), 1, "not a aggregator bundle"),
        (("enrol", "west", *NORTH), 1, "that of 'north'; for 'west' take another --store"),
        (("enrol", "west", *AUTHORITY), 1, "the authority's; a site needs one of its own"),
        (("enrol", "new", "--certificate", "south/south.pem", "--store", "new"), 1, "no key store in 'new'"),
        ((*enrol, "--certificate", "south/south.pem", *TRUST, "--force"), 1, others),
        (("ca-init", "Lung Study", *NORTH), 1, "is a party's"),
        (("ca-init", "Lung Study", *AUTHORITY), 1, "has the authority 'Heart Study'"),
        (("issue", "north/north.csr", "x", *NORTH), 1, "this key store has no authority"),
        (("issue", "east.csr", "west", *AUTHORITY), 1, "east.csr: the certificate request is for 'east', not for"),
        (("issue", "south/south.pem", "south", *AUTHORITY, "--force"), 1, "not a certificate request"),
        (("issue", "east.csr", "east", *AUTHORITY, "--fingerprint", "abc"), 2, "expected 64 hexadecimal digits"),
        (("issue", "east.csr", "east", *AUTHORITY, "--fingerprint", "ab" * 32), 1, "not the one given: do not use it"),
        (("issue", "east.csr", "east", *AUTHORITY), 2, "nobody is there to confirm .*--fingerprint"),
        (("enrol", "aggregator", "--store", "new"), 1, "'aggregator'"),
        (("revoke", "west", *AUTHORITY), 2, "'west' is neither .* number .*certified: 'coordinator', 'north', 'south'"),
        (("revoke", *AUTHORITY), 2, "give a name or a serial number, or --refresh"),
        (("revoke", "south", "--refresh", *AUTHORITY), 2, "give a name or a serial number, or --refresh"),
        # Authorities and lists of somebody else, or none.
        ((*enrol, "--authority", "other/ca.pem", "--fingerprint", fingerprint_in()), 1, "authority 'Lung Study'"),
        ((*enrol, "--authority", "other/ca.pem"), 2, "nobody is there"),
        ((*enrol, "--authority", "other/ca.crl"), 2, "'other/ca.crl' is no certificate in PEM"),
        ((*listed, "other/ca.crl"), 1, "'Lung Study', which is no authority trusted here"),
        ((*listed, "other/ca.pem"), 2, "'other/ca.pem' is no revocation list"),
        ((*listed, "absent"), 2, "'absent' does not exist; see fhe-auc keys enrol --help"),
        # Files of others that never end are not read.
        *((asked, 2, "'endless' is longer than 268,435,456 bytes") for asked in endless),
    ):
        assert_fails(call(*asked), status, why)
    assert {*Path().rglob("*")} == before
    assert "not certified yet" in ok("show", "--store", "east").stdout


def test_sites_may_be_away_with_a_helper_alone_and_who_convenes_is_told_where_the_study_has_no_most_away() -> None:
    make_site("registry")
    make_site("east")
    asked = (*SESSION, "east/east.credential", "--thresholds", "uniform:8", "--min-parties", "2")
    assert_fails(call(*asked, "--out", "sealed"), 2, r"all parties must submit.* take a helper: .*--keys helper")
    helped = (*asked, "--keys", "helper", "--helper", "registry/registry.credential", "--out")
    warned = "--min-parties lets sites be away, but the study has no most-away"
    assert warned in ok(*helped, "unsaid").stderr.replace("\n", " ")
    write_study("study.toml", most_away=1)
    assert warned not in ok(*helped, "week-20").stderr.replace("\n", " ")
    assert "most away 1" in " ".join(ok("show", "week-20/session.helper", *NORTH).stdout.split())


def test_every_command_answers_scripts_with_one_json_object(clock: Clock) -> None:
    Path("other").mkdir()
    made = json_of("ca-init", "Other", *at("other"), "--out", "other")
    assert made["fingerprint"] == fingerprint_in("other")
    asked = json_of("enrol", "east", "--store", "east")
    told = ("--fingerprint", asked["request_fingerprint"])
    issued = json_of("issue", "east.csr", "east", *at("other"), *told)
    assert issued["request_fingerprint"] == asked["request_fingerprint"] == request_fingerprint("east.csr")
    clock.at += timedelta(minutes=1)
    revoked = json_of("revoke", issued["serial"], *at("other"))
    assert revoked["revoked"] == [{"name": "east", "serial": issued["serial"]}]
    session = json_of("session", *CREDENTIALS, *SOUTH, *SMALL)
    assert set(session["files"]) == {"everybody", "the aggregator", *SITES}
    assert Path(session["files"]["north"]) == Path(f"session-{session['session'][:8]}", "north.bundle")
    opened = json.loads(open_as("north", session["files"]["north"], "--json", holder="south").stdout)
    assert {name: opened[name] for name in session if name != "files"} | {"files": session["files"]} == session


@needs_modes
@pytest.mark.parametrize("umask", [0, 0o077])
def test_what_is_written_is_private_or_for_all_who_reach_the_folder_whatever_the_umask(umask: int) -> None:
    """Those who carry files are other users; what is sealed may be read by anybody."""
    Path("exchange").mkdir()
    Path("exchange").chmod(0o2770)
    before = os.umask(umask)
    try:
        ok("session", "south/south.credential", "north/north.credential", *NORTH, "--out", "exchange/w", *SMALL)
        assert open_as_aggregator(bundle="exchange/w/aggregator.bundle").exit_code == 0
        ok("enrol", "east", "--store", "east")
    finally:
        os.umask(before)
    written = (*Path("exchange/w").iterdir(), Path("exchange/w"), Path("east.csr"), Path("aggregator.keys"))
    sent = "session.announcement", "aggregator.bundle", "north.bundle", "south.bundle", "east.csr"
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in written} == {
        **dict.fromkeys(sent, 0o644),
        "w": 0o2770 | 0o777 & ~umask,
        "aggregator.keys": 0o600,
    }
    assert {path.stat().st_mode & 0o077 for path in (Path("east"), *Path("east").rglob("*"))} == {0}


def test_nothing_secret_is_printed_or_sent(template: tuple[Path, list[Result]]) -> None:
    said = [*template[1], *(open_as(name) for name in SITES), open_as_aggregator()]
    said += [ok("show", *at(name), *more) for name in (*SITES, "authority") for more in ((), ("--json",))]
    said.append(call("show", *map(str, Path("week").iterdir()), *NORTH))
    secrets = [PASSPHRASE.encode()]
    for name in SITES:
        with store_of(name) as store:
            identity = Identity.from_bytes(store.get("identity", "own"))
            secrets += [identity.keys.signing.private_bytes_raw(), *identity.keys.encryption.components]
            (session,) = store.names("bundle")
            material = Kept.stored(store, bytes.fromhex(session)).material
            secrets += [material[-32:], material[-200:-160]]
    with store_of("authority") as store:
        secrets.append(Authority.from_bytes(store.get("authority", "own"))._key.private_bytes_raw())
    printed = "".join(result.output for result in said)
    assert "fingerprint" in printed
    spelled = re.sub(r"\s", "", printed)
    for secret in secrets:
        assert secret.hex()[:32] not in spelled  # as much as one line holds
        assert base64.b64encode(secret).decode() not in spelled
    assert PASSPHRASE not in printed
    files = [path for path in Path().rglob("*") if path.is_file()]
    assert len(files) > 20
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
    (row,) = [line for line in ok("show", "week/north.bundle", *NORTH).stdout.splitlines() if "session  " in line]
    spelled = " ".join(re.findall(r"\b[0-9a-f]{4}\b", row))
    assert open_as("north", None, "--session", spelled).exit_code == 0
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


def test_no_file_is_overwritten_unasked(clock: Clock) -> None:
    mine, before = b"something of mine", Path("authority/ca.pem").read_bytes()
    told = ("--fingerprint", request_fingerprint("north/north.csr"))
    commands = {
        "ca.pem": ("ca-init", "Lung Study", "--store", "lung"),
        "ca.crl": ("revoke", "--refresh", *AUTHORITY),
        "east.csr": ("enrol", "east", "--store", "east"),
        "north.pem": ("issue", "north/north.csr", "north", *AUTHORITY, *told),
    }
    for name in (*commands, "aggregator.keys"):
        Path(name).write_bytes(mine)
    for name, command in commands.items():
        assert_fails(call(*command), 2, f"'{name}' is there already; choose another --out, or say --force")
        assert Path(name).read_bytes() == mine
    assert_fails(open_as_aggregator(), 2, "'aggregator.keys' is there already")
    assert not Path("lung").exists()
    for name, command in commands.items():
        ok(*command, "--force")
        assert Path(name).read_bytes() != mine
    assert open_as_aggregator("--force").exit_code == 0
    assert_fails(open_as_aggregator("--out", "void/aggregator.keys"), 2, "there is no folder 'void'")
    result = call("session", "north/north.credential", *NORTH, "--out", "week", *SMALL)
    assert_fails(result, 2, "'week' is not empty")
    clock.at += DAY  # an authority's files can be written again
    ok("ca-init", "Heart Study", *AUTHORITY, "--out", "authority", "--force")
    assert Path("authority/ca.pem").read_bytes() == before
    ok("enrol", "north", *NORTH, "--revocation-list", "authority/ca.crl")  # newer, not another


def test_names_that_are_no_file_names() -> None:
    names = ("St. Mary's / West", "St. Mary's | West", "../up")
    for number, name in enumerate(names):
        make_site(f"site{number}", name)
    credentials = [str(next(Path(f"site{number}").glob("*.credential"))) for number in range(len(names))]
    files = json_of("session", *credentials, *NORTH, "--out", "next", *SMALL)["files"]
    assert {str(path.parent) for path in map(Path, files.values())} == {"next"}
    assert len(set(files.values())) == len(names) + 2
    for number, name in enumerate(names):
        assert open_as(f"site{number}", files[name]).exit_code == 0


# --- Passphrases ------------------------------------------------------------------------------------------------------


def test_a_passphrase_is_right_and_long_enough_or_comes_from_a_file_of_one_line_that_is_its_owner_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = Path("passphrase")
    path.touch(mode=0o600)
    path.write_text(PASSPHRASE)
    for file, inherits in ((None, True), (path, False)):  # children inherit none where a file is given
        Vault(Path("north/store"), file).open().close()
        child = subprocess.run(["/usr/bin/env"], capture_output=True, check=True)
        assert (PASSPHRASE.encode() in child.stdout) is inherits
    monkeypatch.setenv("FHE_AUC_PASSPHRASE", "wrong horse battery staple")
    assert_fails(open_as("north"), 1, "the passphrase is not this key store's")
    path.write_text(f"{PASSPHRASE}\n")
    path.chmod(0o640)
    monkeypatch.setenv("FHE_AUC_STORE", "north/store")
    show = ("show", "--passphrase-file", "passphrase")
    assert_fails(call(*show), 1, "passphrase file 'passphrase' is open to other users")
    path.chmod(0o600)
    assert json_of(*show)["site"]["name"] == "north"  # not the variable's: the file counts
    for bad in (b"", b"\n", b"two\nlines\n", b"\xff\xfe"):
        path.write_bytes(bad)
        assert_fails(call(*show), 2, "'passphrase' is not one line of text")
    monkeypatch.setenv("FHE_AUC_PASSPHRASE", "short")
    assert_fails(call("enrol", "east", "--store", "east"), 2, "too short: take at least 12")
    assert not Path("east").exists()


def test_a_random_passphrase_is_written_once_before_its_store_and_never_over_another_file() -> None:
    """Its store opens at once, so that nothing else may be the passphrase of such a one."""
    enrol, file = ("enrol", "east", "--store", "east", "--random-passphrase"), Path("secret")
    file.write_text("of something else")
    assert_fails(call(*enrol, "secret"), 2, "'secret' is there already, and may be another key store's passphrase")
    assert_fails(call(*enrol, "void/secret"), 1, "void/secret")
    assert_fails(call(*enrol, "new", "--passphrase-file", "secret"), 2, "and not both")
    assert (file.read_text(), Path("new").exists(), Path("east").exists()) == ("of something else", False, False)
    for longest in (40, 70):  # a disk that is full before the passphrase is written, and before the store's header is
        with full_disk(longest):
            failed = call(*enrol, "new")
        assert (failed.exit_code, Path("new").exists(), Path("east/store.sqlite").exists()) == (1, False, False)
    ok(*enrol, "new")
    (passphrase,) = Path("new").read_text().splitlines()
    assert (len(bytes.fromhex(passphrase)), Path("new").stat().st_mode & 0o777) == (32, 0o600)
    assert json_of("show", "--store", "east", "--passphrase-file", "new")["site"]["name"] == "east"
    ok(*enrol, "new", "--force")  # again, after a crash: it opens the store


def test_the_passphrase_is_asked_for_twice_for_a_new_store_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FHE_AUC_PASSPHRASE")
    result = ok("enrol", "east", "--store", "east", input=f"{PASSPHRASE}\n{PASSPHRASE}\n")
    assert "Repeat for confirmation" in result.stderr
    assert PASSPHRASE not in result.output
    result = ok("show", "--store", "east", input=f"{PASSPHRASE}\n")
    assert result.stderr.startswith("Passphrase of key store 'east'")


def test_without_a_terminal_there_is_advice_instead_of_a_question() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "FHE_AUC_PASSPHRASE"}
    show = [sys.executable, "-c", "from fhe_auc.cli import main; main()", "keys", "show", *NORTH]
    process = run(show, env=environment, stdin=subprocess.DEVNULL, start_new_session=True, timeout=60)
    assert (process.returncode, process.stdout) == (2, "")
    assert re.fullmatch("error: no terminal .*set FHE_AUC_PASSPHRASE or give --passphrase-file\n", process.stderr)


def test_a_site_s_own_certificate_takes_part_if_key_and_options_fit() -> None:
    chain = ("enrol", "west.example", "--store", "west", "--chain", "chain.pem", "--key", "key.pem")
    root = ("--authority", "root.pem", "--revocation-list", "root.crl")
    site = Site()
    leaf = site.certificate("west.example", site.key, "root", site.root_key, ca=False)
    listed = site.crl("root", site.root_key, next_update=NOW + 30 * DAY)
    how = BestAvailableEncryption(b"secret of the key")
    for name, data in (
        ("root.pem", site.root.public_bytes(Encoding.PEM)),
        ("chain.pem", leaf.public_bytes(Encoding.PEM)),
        ("root.crl", listed.public_bytes(Encoding.DER)),  # as real authorities publish it
        ("key.pem", site.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how)),
        ("other.pem", site.root_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())),
    ):
        Path(name).write_bytes(data)
    password = "y\nsecret of the key\n"  # noqa: S105
    no_key = "'key.pem' is no private key in PEM, or the password"
    for asked, typed, status, why in (
        ((*chain, *root), "y\nwrong\n", 2, no_key),
        ((*chain[:-1], "other.pem", *root), "y\n", 1, "the private key is not that of the certificate"),
        ((*chain[:-1], "chain.pem", *root), "y\n", 2, "no private key in PEM"),
        ((*chain[:-2], *root), "", 2, "--chain together with --key"),
        ((*chain, "--certificate", "north/north.pem"), "", 2, "give --certificate alone"),
        ((*chain, *root[:2]), password, 1, "no revocation list of"),
    ):
        assert_fails(call(*asked, input=typed), status, why)
    assert not Path("west.example.credential").exists()
    result = ok(*chain, *root, input=password)
    assert "Password of 'key.pem'" in result.stderr
    assert "secret of the key" not in result.output
    ok("enrol", "north", *NORTH, *root, input="y\n")
    both = ("north/north.credential", "west.example.credential")
    assert_fails(call("session", *both, *SOUTH, *SMALL), 1, "west.example.credential: no chain from")
    ok("session", *both, *NORTH, "--out", "next", *SMALL)
    ok("enrol", "west.example", "--store", "west", *TRUST, input="y\n")
    assert "this is you; certificate" in open_as("west", "next/west.example.bundle", "--store", "west").stdout
    assert re.search("verified +yes", ok("show", "west.example.credential", *root).stdout)


# --- show and help ----------------------------------------------------------------------------------------------------

KINDS = {
    "north/north.csr": ("certificate request", False),
    "north/north.pem": ("certificate of a party", True),
    "authority/ca.pem": ("certificate of an authority", True),
    "authority/ca.crl": ("revocation list", True),
    "south/south.credential": ("credential", True),
    "week/session.announcement": ("session announcement", True),
    "week/aggregator.bundle": ("aggregator's bundle", True),
    "week/south.bundle": ("party's bundle", True),
    "north/store/store.sqlite": ("key store", False),
}


def test_show_tells_what_is_verified_and_what_only_claimed_and_programs_by_names_and_iso_8601_times() -> None:
    """Nothing is a list of pairs or cells, and every time is one that Python reads back, in UTC."""

    def shown(*more: str) -> dict[str, dict[str, Any]]:
        return {each["file"]: each for each in json_of("show", *KINDS, *more)["files"]}

    open_as("south")
    claimed, by_options, by_store = shown(), shown(*TRUST), shown(*SOUTH)
    for path, (what, verifiable) in KINDS.items():
        assert what in claimed[path]["what"]
        found = [each[path]["verified"] for each in (claimed, by_options, by_store)]
        assert found == [False, verifiable, verifiable], path
    assert "provided that authority/ca.pem is genuine" in by_options["north/north.pem"]["verdict"]
    # What is inside a signed document is not even shown before its signature is verified.
    assert claimed["week/south.bundle"]["details"] == {"signed_by": "north"}
    told = {path: each["details"] for path, each in by_store.items()}
    for path, names in (
        ("authority/ca.pem", {"name", "issuer", "serial", "fingerprint", "not_before", "not_after"}),
        ("authority/ca.crl", {"authority", "revoked", "last_update", "next_update"}),
        ("north/north.csr", {"name", "fingerprint"}),
    ):
        assert set(told[path]) == names
    certificate = x509.load_pem_x509_certificate(Path("authority/ca.pem").read_bytes())
    assert datetime.fromisoformat(told["authority/ca.pem"]["not_after"]) == certificate.not_valid_after_utc
    bundle = told["week/south.bundle"]
    assert bundle == {**told["week/session.announcement"], "sealed_to": "south"}
    assert (list(bundle["parties"]), bundle["soundness"] < 2**-40) == (list(SITES), True)
    assert re.search("verified +no +only what the file claims", ok("show", "week/south.bundle").stdout)
    chance = f"a lie passes +< {re.escape(chance_text(bundle['soundness']))}"
    assert re.search(chance, ok("show", "week/south.bundle", *SOUTH).stdout)
    stores = [json_of("show", *at(name)) for name in ("south", "authority")]
    (session,) = stores[0]["sessions"].values()
    held = {"end_seen": None}
    assert session == {"state": "opened", "until": bundle["not_after"], "has_result": False, **held}
    text = json.dumps({"files": told, "stores": stores})
    assert not re.search(r"\[\s*\[", text)
    times = re.findall(r'"(?:until|not_before|not_after|last_update|next_update)": "(.*?)"', text)
    assert len(times) > 10
    assert {datetime.fromisoformat(each).utcoffset() for each in times} == {timedelta(0)}


def test_show_refuses_what_is_not_genuine(clock: Clock) -> None:
    bad = Path("bad")
    for path in ("week/south.bundle", "week/session.announcement", "south/south.credential"):
        data = flipped(Path(path).read_bytes(), -1)
        for forged in (data, mended(data)):  # this one by a forger who knows the checksum
            bad.write_bytes(forged)
            result = call("show", "bad", *NORTH)
            assert (result.exit_code, result.stderr) == (1, "")
            assert re.search("verified +REFUSED", result.stdout)
    for data in (b"anything", Path("north/north.pem").read_bytes()[:200]):
        bad.write_bytes(data)
        assert call("show", "bad").exit_code == 1
    Path("other").mkdir()
    ok("ca-init", "Heart Study", *at("other"), "--out", "other")
    for path in ("other/ca.pem", "other/ca.crl"):
        assert (call("show", path, *NORTH).exit_code, call("show", path).exit_code) == (1, 0)
    clock.at += 31 * DAY
    result = call("show", "authority/ca.crl", *NORTH)
    assert (result.exit_code, "outdated" in result.stdout) == (1, True)
    assert_fails(call("show"), 2, "name a file, or a key store")


def test_show_quotes_no_private_key_and_no_control_characters() -> None:
    site = Site(name="no\x1b[31mrth\nverified yes")
    Path("odd.pem").write_bytes(site.leaf.public_bytes(Encoding.PEM))
    Path("key.pem").write_bytes(site.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    odd, private = ok("show", "odd.pem").stdout, ok("show", "key.pem").stdout
    assert "\x1b" not in odd
    assert not re.search("^verified +yes", odd, re.MULTILINE)
    assert "a private key" in private
    assert Path("key.pem").read_text().splitlines()[1][:20] not in private


def test_the_group_s_help_tells_the_story_in_order_and_in_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    story = call("--help").stdout
    assert re.search(r"(?s)\n  [^\n]* ca-init .*\n  [^\n]* enrol .*\n  [^\n]* session ", story)
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
