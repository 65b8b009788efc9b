"""What the protocols without encryption have in common: what their roles refuse, and that nothing is lost by that."""

import json
from dataclasses import asdict
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from fhe_auc.base.errors import InputError, MessageError
from fhe_auc.base.options import described
from fhe_auc.base.serialise import encode
from fhe_auc.cli import main
from fhe_auc.question.thresholds import MAX_PLACES
from fhe_auc.rlwe.ring_parameters import FINGERPRINT_BYTES
from fhe_auc.session import registry
from fhe_auc.session.plan import EncodedPlan
from fhe_auc.session.protocol import Request
from fhe_auc_protocols import options as of
from fhe_auc_protocols.dpauc.roc import Curve
from fhe_auc_protocols.unencrypted_protocol import UnencryptedProtocol
from tests.suite.sessions import OPTIONS as EVERY
from tests.support.random_sites import sites
from tests.support.roles import SessionRoles, unencrypted
from tests.support.wire import changed, payload_of

OPTIONS = {name: own for name, own in EVERY.items() if isinstance(registry.load(name), UnencryptedProtocol)}
OPTIONS["boundaries-local-dp"] = {"bins": 3, "epsilon": 4.0, "height": 2}  # of two levels
SITES, GRID = sites(), np.linspace(0, 1, 16)
every = pytest.mark.parametrize("name", OPTIONS)


def played(name: str, **changes: Any) -> tuple[SessionRoles, list[bytes]]:
    """A session whose parties have answered the first message; nothing is delivered yet."""
    roles = unencrypted(registry.load(name), SITES, **{"thresholds": GRID, "options": OPTIONS[name], **changes})
    return roles, roles.submit()


def asked(name: str, **changes: Any) -> Request:
    names = tuple(data.name for data in SITES)
    return Request(**{"parties": names, "thresholds": GRID, "options": OPTIONS[name], **changes})


def counts_in(message: bytes) -> list[Any]:
    found: list[Any] = msgspec.msgpack.decode(payload_of(message).lstrip(b"\xc1"))
    return found


def total(values: Any) -> Any:
    return sum(values) if isinstance(values[0], int) else [total(each) for each in zip(*values, strict=True)]


def of_no_rows(name: str, counts: list[Any]) -> list[Any]:
    """Messages in the form of this honest one, which no party can send."""
    if name == "boundaries-local-dp":
        tallies: list[Any] = [
            *([[1, 1], [[0, 1]]], [[1], [[0, 1]]], [[0, 0], [[0, 0], [0] * 4]], [[1, -1], [[0, 1], [0] * 4]]),
            *([[1, 1], [[0, 2], [0] * 4]], [[1, 1], [[0, -1], [0] * 4]], [[1, 1], [[0, 1], [0] * 3]]),
            [[2**62, 1], [[0, 1], [0] * 4]],
        ]
        return [[1, *each] for each in tallies]
    if name == "histogram-local-dp":
        bits = len(counts[2][0])
        ones = ([5], [0] * (bits - 1)), ([0], [0] * bits), ([5], [6] * bits), ([5], [-1] * bits), ([5, 0], [0] * bits)
        return [*([1, reports, [each]] for reports, each in ones), [1, [5, 5], [[0] * bits] * 2]]
    parties, *others, last = counts
    numbers = [2**63, 0.5, "1"]
    if name.startswith("dpauc"):
        more = [last[0] + 1, *last[1:]] if name == "dpauc-rr" else last[:-1]  # which is not of flipped labels
        return [[parties, *others, more], *([parties, *others, [n] * len(last)] for n in (2**62, -(2**62), *numbers))]
    return [[parties, *others, [number, *[0] * (len(last) - 1)]] for number in (-1, 2**62 + 1, *numbers)]


@every
def test_a_submission_that_no_rows_could_give_is_refused_and_leaves_the_session_as_it_was(name: str) -> None:
    roles, sent = played(name)
    first = SITES[0].name
    honest = counts_in(sent[0])
    *others, last = honest
    lengths = ([*honest, 0], others, [*others, None], [*others, last[:-1]], [*others, []])
    wrong = [[2, *honest[1:]], *lengths, [1, [1]], "text"]
    for payload in (b"", bytes(1000), *map(encode, (*wrong, *of_no_rows(name, honest)))):
        with pytest.raises(MessageError, match=first):
            roles.aggregator.receive(first, changed(sent[0], payload=payload))
    result = roles.deliver(sent)
    assert counts_in(result) == total([counts_in(each) for each in sent])
    for party in roles.parties:
        party.respond(result)
        assert party.result().parties == len(SITES)


@every
def test_a_result_that_no_session_could_have_is_refused_and_the_right_one_is_read_after_it(name: str) -> None:
    roles, sent = played(name)
    result, party = roles.deliver(sent), roles.parties[0]
    _, *counts = counts_in(result)
    for wrong in ([4, *counts], [0, *counts], [1, *counts], [3, *counts[:-1], counts[-1][1:]]):
        with pytest.raises(MessageError):
            party.respond(changed(result, payload=encode(wrong)))
    with pytest.raises(MessageError, match="malformed result"):
        party.respond(changed(result, payload=b"\xc1"))
    party.respond(result)
    assert party.result().parties == len(SITES)


@every
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"backend": "tenseal"}, "takes no encryption library: backend does not apply"),
        ({"keys": "helper"}, "has no keys: keys 'helper' do not apply"),
        ({"min_parties": 1}, "min_parties must lie between 2 and 3"),
        ({"options": {"bins": 3}}, "epsilon has no default; give a privacy budget|no option 'bins'"),
    ],
)
def test_what_only_encryption_has_and_no_budget_are_refused(name: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        registry.load(name).prepare(asked(name, **changes))


@every
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"protocol": "semi-honest"}, "manifest is of protocol 'semi-honest', not '"),
        (
            {"keys": "sealed", "context": bytes(FINGERPRINT_BYTES), "plan": EncodedPlan("auc", b"")},
            "manifest is not one of '",
        ),
        ({"secret": 1}, "no option 'secret'"),
        ({"epsilon": None}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon must"),
        ({"epsilon": 1e300}, "epsilon .*promises nothing|epsilon must lie between"),  # a liar would like exact counts
    ],
)
def test_roles_refuse_what_the_protocol_would_not_make(name: str, changes: dict[str, Any], message: str) -> None:
    plugin: Any = registry.load(name)
    manifest = plugin.prepare(asked(name)).manifest
    if changes.keys() <= {"secret", "epsilon"}:
        options = {**manifest.options, **changes}
        changes = {"options": {each: value for each, value in options.items() if value is not None}}
    manifest = msgspec.structs.replace(manifest, **changes)
    for role in (lambda: plugin.aggregator(manifest, b""), lambda: plugin.party(manifest, b"", SITES[0])):
        with pytest.raises(InputError, match=message):
            role()


def test_every_option_has_a_line_that_the_command_line_shows() -> None:
    printed = json.loads(CliRunner().invoke(main, ["protocols", "--json"]).stdout)["protocols"]
    for each in printed:
        kind = registry.load(each["name"]).options
        assert each["options"] == described(kind)
        assert list(each["options"]) == list(kind.known)


def test_a_line_says_type_and_default() -> None:
    lines = described(of.DPAUC_GAUSSIAN)
    assert lines["epsilon"].endswith("(number, must be given)")
    assert lines["clip"].endswith("(true or false, default true)")
    assert described(of.MALICIOUS)["tolerance"].endswith("(number)")
    assert described(of.EXACT)["round_scores"].endswith("(whole number)")
    assert f"1 to {MAX_PLACES}" in described(of.EXACT)["round_scores"]


def test_the_curve_of_dpauc_has_the_defaults_of_its_options() -> None:
    assert asdict(Curve()) == {name: of.DPAUC_LAPLACE.known[name].default for name in asdict(Curve())}
