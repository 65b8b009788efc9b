"""Sessions of ``ustat-pairs``: who reads what by lying, what is refused, and that the pairs are the right ones."""

import itertools
import json
import math
import time
from typing import Any

import msgspec
import numpy as np
import pytest

from fhe_auc.base.errors import InputError, MessageError, UndefinedAucError
from fhe_auc.base.names import AGGREGATOR
from fhe_auc.base.serialise import decode, encode
from fhe_auc.question.analysis import PLAIN
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import one_process
from fhe_auc.session.messages import Message
from fhe_auc.session.protocol import Request, Spending
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.message_signatures import SessionProtection
from fhe_auc_protocols.u_statistics import pair_sessions, two_party
from fhe_auc_protocols.u_statistics.pair_sessions import UstatPairs
from fhe_auc_protocols.u_statistics.pairs import matched
from fhe_auc_protocols.u_statistics.two_party import HALF, REPLY_BYTES, REQUEST_BYTES, RING_DIMENSION, First, Second
from tests.support.pooled import sklearns_auc
from tests.support.random_sites import sites

BINS = 16
LIMIT = 2**30


def asked(parties: list[PartyData], **options: Any) -> Request:
    names, least = tuple(data.name for data in parties), min(len(parties), 2)
    options = {"epsilon": 1.0, **options}
    return Request(parties=names, thresholds=np.linspace(0, 1, BINS), min_parties=least, options=options)


class Play:
    """All roles of a session, by name; `signed` as between machines."""

    def __init__(self, parties: list[PartyData], *, signed: bool = False, **options: Any) -> None:
        plugin = UstatPairs()
        self.data, self.manifest = parties, plugin.prepare(asked(parties, **options)).manifest
        self.aggregator = plugin.aggregator(self.manifest, b"")
        self.parties = {data.name: plugin.party(self.manifest, b"", data) for data in parties}
        self.pairings = self.manifest.options["pairings"]
        if signed:
            roles: dict[str, Any] = {AGGREGATOR: self.aggregator, **self.parties}
            own = {name: Identity.create(f"the {name}") for name in roles}
            signing = {name: identity.signing_key for name, identity in own.items()}
            sealing = {AGGREGATOR: own[AGGREGATOR].encryption_key}
            for name, role in roles.items():
                role.protection = SessionProtection(self.manifest.digest, signing, sealing, own[name])
        self.message = self.aggregator.start()

    def answers(self) -> dict[str, bytes]:
        return {name: party.respond(self.message) for name, party in self.parties.items()}

    def next_round(self, answers: dict[str, bytes] | None = None) -> None:
        for name, answer in (answers or self.answers()).items():
            self.aggregator.receive(name, answer)
        message = self.aggregator.finish_round()
        assert message is not None
        self.message = message

    def results(self) -> list[Any]:
        self.answers()
        return [party.result() for party in self.parties.values()]

    def told(self) -> dict[str, tuple[bytes, bytes]]:
        """What parties tell each other in the message of this round: content and signature."""
        if self.aggregator.round > 3:
            return {}
        payloads = decode(payload(self.message), tuple[tuple[str, bytes], ...], "")
        return {name: decode(sent, tuple[bytes, bytes], "") for name, sent in payloads}

    def lie(self, told: dict[str, tuple[bytes, bytes]]) -> bytes:
        """The message, signed by the aggregator, with this in it."""
        lying = changed(self.message, encode(tuple((name, encode(sent)) for name, sent in told.items())))
        protection = self.aggregator.protection
        return lying if protection is None else parsed(lying).protected(protection).to_bytes()

    def exact(self) -> np.ndarray:
        """What comparisons without noise give of each party's positives, shape (parties, 3)."""
        rows = [np.minimum((data.y_score * (BINS - 1) + 1e-9).astype(int), BINS - 1) for data in self.data]
        classes = [(own[data.y_true], own[~data.y_true]) for own, data in zip(rows, self.data, strict=True)]
        sizes = [(len(positives), len(negatives)) for positives, negatives in classes]
        found = np.zeros((len(sizes), 3), np.int64)
        for party, row, other, negative in zip(*matched(self.manifest.session, sizes, self.pairings), strict=True):
            found[party, np.sign(classes[party][0][row] - classes[other][1][negative]) + 1] += 1
        return found


def parsed(message: bytes) -> Message:
    return Message.from_bytes(message, limit=LIMIT)


def payload(message: bytes) -> bytes:
    return bytes(parsed(message).payload)


def content_of(answer: bytes) -> bytes:
    """What a party tells the others."""
    content, _ = decode(payload(answer), tuple[bytes, bytes], "")
    return content


def changed(message: bytes, payload: bytes) -> bytes:
    return msgspec.structs.replace(parsed(message), payload=payload).to_bytes()


def tallies(answers: dict[str, bytes]) -> np.ndarray:
    return np.array([np.frombuffer(payload(answer), "<i8") for answer in answers.values()])


@pytest.fixture
def parties() -> list[PartyData]:
    """Of different sizes; the last one has no positives."""
    first, second, third = sites(3, rows=16, seed=3)
    negative = PartyData.from_arrays("site 2", np.zeros(7, bool), third.y_score[:7])
    return [first, PartyData.from_arrays("site 1", second.y_true[:9], second.y_score[:9]), negative]


def without_u(play: Play, answer: bytes, name: str) -> bytes:
    """A party's first answer, with requests that leave out its share of the noise."""
    negatives, sent = decode(content_of(answer), tuple[int, bytes], "")
    side: Any = play.parties[name]._side
    first, requests = First(side._kept.seed), []
    for row in side._positives * play.pairings:
        message = HALF.zeros()
        message[:, row] = [two_party._ONE % modulus for modulus in HALF.moduli]
        requests.append(two_party._SEEDED.encrypt(first._secret, message, np.array([row], np.uint64)))
    content = encode((negatives, sent[:REQUEST_BYTES] + b"".join(requests)))
    side._kept = msgspec.structs.replace(side._kept, told=pair_sessions._digest(1, content))
    return changed(answer, encode((content, b"")))


@pytest.mark.parametrize("pairings", [1, 3])
def test_holders_of_positives_that_leave_out_their_noise_read_exact_comparisons_of_the_right_pairs(
    parties: list[PartyData], pairings: int
) -> None:
    """Nobody notices: epsilon does not hold against the party with the other row of a pair."""
    play = Play(parties, pairings=pairings)
    play.next_round({name: without_u(play, answer, name) for name, answer in play.answers().items()})
    play.next_round()
    assert tallies(play.answers()).tolist() == play.exact().tolist()


def test_a_holder_of_negatives_that_leaves_out_its_noise_shows_the_aggregator_exact_comparisons(
    parties: list[PartyData], monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Play(parties)
    honest = pair_sessions.Second
    with monkeypatch.context() as lying:
        lying.setattr(pair_sessions, "Second", lambda key, table: honest(key, np.zeros_like(table)))
        play.next_round()
        play.next_round()
    assert tallies(play.answers()).tolist() == play.exact().tolist()


def test_an_aggregator_cannot_put_requests_or_replies_of_its_own_in_the_place_of_a_partys(
    parties: list[PartyData],
) -> None:
    play, own = Play(parties, signed=True), First(b"the aggregator's own secret key.")
    for number in (1, 2):
        play.next_round()
        told = play.told()
        content, signature = told["site 1"]
        forged = encode((0, own.public_key() + own.request(3, BINS) * 4)) if number == 1 else bytes(len(content))
        signed = play.aggregator.protection.sign(  # type: ignore[union-attr]
            pair_sessions._TOLD, pair_sessions._digest(number, forged)
        )
        lies = (
            {**told, "site 1": (forged, signature)},
            {**told, "site 1": (forged, signed)},
            {**told, "site 1": told["site 0"]},
            {**told, "site 1": (content, b"")},
        )
        for lie in lies:
            with pytest.raises(MessageError, match="no genuine signature of 'site 1'"):
                play.parties["site 0"].respond(play.lie(lie))
        left_out = {name: said for name, said in told.items() if name != "site 1"}
        with pytest.raises(MessageError, match="not those whose submissions the aggregator has listed"):
            play.parties["site 0"].respond(play.lie(left_out))
    play.next_round()
    assert len({found.auc for found in play.results()}) == 1


def test_who_counts_and_a_partys_own_numbers_do_not_change_on_the_way(parties: list[PartyData]) -> None:
    play = Play(parties)
    play.next_round()
    told, party = play.told(), play.parties["site 0"]
    with pytest.raises(MessageError, match="'site 0' has told something else"):
        party.respond(play.lie({**told, "site 0": told["site 1"]}))
    play = Play(parties, signed=True)
    play.next_round()
    for _ in range(2):
        play.next_round()
        lie = play.lie({name: play.told()[name] for name in ("site 0", "site 1")}) if play.told() else play.message
        fewer = msgspec.structs.replace(parsed(lie), submissions=parsed(lie).submissions[:2])
        with pytest.raises(MessageError, match="not those"):
            play.parties["site 0"].respond(fewer.protected(play.aggregator.protection).to_bytes())  # type: ignore[arg-type]


def test_what_a_party_told_in_one_round_is_not_told_in_another(parties: list[PartyData]) -> None:
    play = Play(parties, signed=True)
    play.next_round()
    before = play.told()
    play.next_round()
    with pytest.raises(MessageError, match="no genuine signature"):
        play.parties["site 0"].respond(play.lie({**play.told(), "site 2": before["site 2"]}))


@pytest.mark.parametrize("lie", ["lists of an aggregator", "offers of its accomplice"])
def test_a_row_that_meets_many_others_as_each_was_told_something_else_is_in_no_tally(lie: str) -> None:
    """The first row of `a` is to be compared with the row of each `b`, all of which would answer, signed, once."""
    holders = [PartyData.from_arrays(f"b{number}", [False], [0.5]) for number in range(6)]
    others = PartyData.from_arrays("a", np.ones(6, bool), np.full(6, 0.5)), PartyData.from_arrays("z", [False], [0.0])
    play = Play([*others, *holders], signed=True)
    play.next_round()
    heard, listed = play.told(), dict(parsed(play.message).submissions)
    (aggregator, z), session = (role.protection for role in (play.aggregator, play.parties["z"])), play.manifest.session
    key = decode(heard["z"][0], tuple[int, bytes], "")[1]

    def signed(number: int, content: bytes) -> tuple[bytes, bytes]:
        return content, z.sign(pair_sessions._TOLD, pair_sessions._digest(number, content))

    def offers() -> Any:
        if lie.startswith("lists"):
            for size in range(2, 8):
                yield from ({name: heard[name] for name in names} for names in itertools.combinations(heard, size))
        for positives, negatives in itertools.product(range(1, 9), range(30)):
            yield {**heard, "z": signed(1, encode((negatives, key * (1 + positives))))}

    def meets(told: dict[str, tuple[bytes, bytes]], name: str) -> bool:
        sizes = [pair_sessions._offer(content, play.manifest, 1)[0] for content, _ in told.values()]
        pairs, names = matched(session, sizes, 1), [*told]
        first = (pairs.positive_party == names.index("a")) & (pairs.positive == 0)
        return name in [names[party] for party in pairs.negative_party[first]]

    def says(number: int, told: dict[str, tuple[bytes, bytes]], listed: dict[str, bytes]) -> bytes:
        content, among = encode(tuple((name, encode(told[name])) for name in told)), tuple((n, listed[n]) for n in told)
        return Message.of(
            play.manifest, aggregator, number, AGGREGATOR, content, recipient="", submissions=among
        ).to_bytes()

    told = dict.fromkeys([data.name for data in holders])
    told = {name: next(told for told in offers() if {"a", name} <= told.keys() and meets(told, name)) for name in told}
    told["a"] = {**heard, "z": signed(1, encode((0, key)))}
    if lie.startswith("lists"):
        del told["a"]["z"]
    answers = {name: parsed(play.parties[name].respond(says(2, told[name], listed))) for name in sorted(told)}
    replies = {
        name: decode(answer.unseal(aggregator, AGGREGATOR), tuple[bytes, bytes], "") for name, answer in answers.items()
    }
    assert {len(replies[name][0]) // REPLY_BYTES for name in replies if name != "a"} == {1}
    if lie.startswith("offers"):
        replies["z"] = signed(2, replies["a"][0])
    listed |= {name: answer.digest for name, answer in answers.items()}
    with pytest.raises(MessageError, match=r"party 'b\d' was told another list, or other numbers"):
        play.parties["a"].respond(says(3, {name: replies[name] for name in told["a"]}, listed))


def test_an_aggregator_refuses_replies_of_who_says_that_it_was_told_something_else(parties: list[PartyData]) -> None:
    play = Play(parties)
    play.next_round()
    answers = play.answers()
    content = content_of(answers["site 0"])
    refuse(play, "site 0", answers, [encode((b"\x00" + content[1:], b""))])


def test_one_lying_holder_of_negatives_reads_the_bin_of_any_positive_off_what_all_are_told() -> None:
    """Nobody helps it, whatever epsilon is: it replies to one request for all pairs."""
    rows, wanted = np.random.default_rng(5).permutation(BINS)[:-1], 7
    victim = PartyData.from_arrays("a", np.ones(BINS - 1, bool), rows / (BINS - 1))
    play = Play(
        [victim, PartyData.from_arrays("z", np.zeros(BINS - 1, bool), np.zeros(BINS - 1))], signed=True, epsilon=0.1
    )
    play.next_round()
    _, (key, *requests) = pair_sessions._offer(play.told()["a"][0], play.manifest, 1)
    liar: Any = play.parties["z"]._side
    second, honest = Second(key, np.zeros(RING_DIMENSION - BINS, np.int64)), liar._replied
    replies = b"".join(second.reply(requests[wanted], row) for row in range(BINS - 1))
    liar._replied = lambda heard: honest(heard)[:33] + replies
    for _ in range(2):
        play.next_round()
    assert np.frombuffer(payload(play.message), "<i8")[2] == rows[wanted]


@pytest.mark.parametrize("sizes", [(1, 0), (500, 0), (1, 100_000), (0, 3)])
def test_whatever_numbers_others_claim_no_negative_is_compared_more_often_than_there_are_pairings(
    parties: list[PartyData], sizes: tuple[int, int]
) -> None:
    play = Play(parties, pairings=2)
    play.next_round()
    own = First(b"a seed of another secret key ...")
    request = own.request(0, BINS)
    offer = encode((sizes[1], own.public_key() + request * sizes[0] * 2)), b""
    answer = play.parties["site 0"].respond(play.lie({**play.told(), "site 1": offer}))
    content = content_of(answer)[33:]
    assert len(content) % REPLY_BYTES == 0
    assert len(content) // REPLY_BYTES <= 2 * (~parties[0].y_true).sum()
    with pytest.raises(MessageError):  # asked once
        play.parties["site 0"].respond(play.message)


def test_messages_that_no_party_can_have_sent_are_refused_in_its_name(parties: list[PartyData]) -> None:
    play = Play(parties)
    answers = play.answers()
    content = content_of(answers["site 0"])
    negatives, sent = decode(content, tuple[int, bytes], "")
    wrong = [(-1, sent), (2**20 + 1, sent), (negatives, sent[:-1]), (negatives, b"")]
    wrong += [(negatives, sent[:-REQUEST_BYTES] + b"\xff" * REQUEST_BYTES), (negatives, b"\xff" * len(sent))]
    bad = [b"", b"\xc1", encode(1), encode((content,)), *(encode((encode(each), b"")) for each in wrong)]
    refuse(play, "site 0", answers, bad)
    replies = play.answers()
    content = content_of(replies["site 0"])
    small = content[:38] + bytes(REPLY_BYTES - 5) + content[33 + REPLY_BYTES :]  # c₁ = 0
    wrong = [b"", content[:33], content[:-1], content + content[33:], small]
    refuse(play, "site 0", replies, [encode((each, b"")) for each in wrong])
    answers = play.answers()
    tally = np.frombuffer(payload(answers["site 0"]), "<i8")
    bad = [(tally + shift).astype("<i8").tobytes() for shift in ([0, 0, 1], [2**62, 2**62, 2**63 - 1], [-99, 99, 0])]
    refuse(play, "site 0", answers, [b"", tally.tobytes() * 2, *bad])
    with pytest.raises(MessageError, match="not the answers of"):
        play.parties["site 0"].respond(changed(play.message, b"\x01" + bytes(23)))
    assert len({found.auc for found in play.results()}) == 1


def refuse(play: Play, name: str, answers: dict[str, bytes], wrong: list[bytes]) -> None:
    """Have the aggregator refuse all of these payloads, and take the honest ones."""
    for each in wrong:
        with pytest.raises(MessageError, match=f"submission of party {name!r} refused"):
            play.aggregator.receive(name, changed(answers[name], each))
        assert set(play.aggregator.refusals) == {name}
    play.next_round(answers)


def test_parties_go_on_after_a_restart_between_any_two_rounds_without_their_rows(parties: list[PartyData]) -> None:
    play = Play(parties, signed=True, pairings=2)
    for _ in range(3):
        play.next_round()
        for data in parties:
            before = play.parties[data.name]
            after = UstatPairs().party(play.manifest, b"", PartyData.without_rows(data.name, PLAIN))
            after.protection = before.protection
            after.restore(before.saved())
            play.parties[data.name] = after
            assert bool(after._side._kept.negatives) == (play.aggregator.round < 3)  # kept till compared
    assert len({found.auc for found in play.results()}) == 1


def test_a_session_is_as_near_to_the_pooled_auc_as_it_says_and_says_what_it_spends() -> None:
    parties = sites(rows=60)
    found = one_process.run(UstatPairs(), asked(parties, epsilon=30.0, pairings=4), parties, None)
    assert abs(found.auc - sklearns_auc(parties)) < 5.4 * found.settings["standard error"]
    assert 0 < found.settings["standard error"] < found.settings["standard error bound"] < 0.2
    assert (found.settings["epsilon"], found.settings["pairings"], found.settings["bins"]) == (30.0, 4, BINS)
    assert (found.rounds, found.parties, found.security_bits, found.verified) == (4, 3, 128, False)
    assert "(ustat-pairs: everybody) learns how many of each class" in found.warnings[0]
    assert UstatPairs().spends(UstatPairs().prepare(asked(parties, epsilon=2.0)).manifest) == Spending(2.0, "score")
    assert "one that lies reads whole scores of others' rows" in UstatPairs.trust
    json.dumps(found.as_dict())


def test_without_a_pair_there_is_no_auc(parties: list[PartyData]) -> None:
    play = Play(parties[2:])
    for _ in range(3):
        play.next_round()
    with pytest.raises(UndefinedAucError):
        play.results()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"pairings": wrong}, f"pairings must be a whole number from 1 to 16, got {wrong!r}")
          for wrong in (0, 17, True, 1.5)),
        ({"epsilon": 0.01, "pairings": 16}, r"epsilon = 0\.01 is too small: at least 0\.0353 for 16 pairings"),
        ({"epsilon": 33}, r"must lie between 0\.000001 and 32"),
        ({"bins": 4}, "no option 'bins'"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_met_are_refused(parties: list[PartyData], options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        UstatPairs().prepare(asked(parties, **options))


@pytest.mark.parametrize(("others", "most"), [(0, 1365), (99, 200)])  # 4,096 requests; 60,000 of 100 parties
def test_a_party_with_too_many_rows_is_told_how_many_there_may_be(others: int, most: int) -> None:
    many = PartyData.from_arrays("north", np.ones(most + 1, bool), np.full(most + 1, 0.5))
    none = [PartyData.from_arrays(f"site {n}", [False], [0.5]) for n in range(others)]
    manifest = UstatPairs().prepare(asked([many, *none], pairings=3)).manifest
    with pytest.raises(InputError, match=f"'north' has {most + 1:,} positive .* takes {most:,} .* or fewer pairings"):
        UstatPairs().party(manifest, b"", many)


def test_neighbouring_bins_are_merged_where_there_are_more_than_1_024(parties: list[PartyData]) -> None:
    request = Request(parties=("site 0",), thresholds=np.linspace(0, 1, 3000), options={"epsilon": 1.0})
    assert UstatPairs().checked(UstatPairs().prepare(request).manifest).bins == 1024


@pytest.mark.slow
def test_a_session_of_1_000_pairs_takes_20_seconds_at_most() -> None:
    labels = np.arange(700) < 350
    parties = [PartyData.from_arrays(f"site {n}", labels, np.random.default_rng(n).random(700)) for n in range(3)]
    started = time.process_time()
    found = one_process.run(UstatPairs(), asked(parties), parties, None)
    assert time.process_time() - started < 20
    assert math.isfinite(found.auc)
