"""The AUC from random pairs of rows, as a protocol, ``ustat-pairs``; `pairs` and `two_party` say what it promises.

    1    party -> how many negatives it has, its public key, and P requests for each of its positives
    2    all parties' numbers, keys and requests -> a digest of these; replies, for the pairs whose negative is its own
    3    all parties' replies -> how many of its own requests gave each answer, 0, 1 and 2
    4    the sums of these -> the result

Who has which pair follows from the numbers and the session's name (`pairs.matched`). Pairs within one party go the same
way. The secret key is for one session.

**Epsilon holds among parties that follow the protocol**, whatever the aggregator does, which learns each one's counts
of noisy answers: as they sign what they tell each other, it can leave out some, but not speak for them; and nobody
counts replies of who was told another list, or other offers, which would bring one positive into many pairs.

**Not against a party that lies.** With negatives, and by a claim of many in nearly all pairs, it replies to any
requests, by any functions, without noise: the sum says whole scores. With positives, it reads any function of three
values of a negative in each of at most P pairs, as a party replies once: in seven the whole bin.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fhe_auc.base.errors import DeserialisationError, InputError, UndefinedAucError
from fhe_auc.base.serialise import SecretStruct, decode, encode
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rlwe.ciphertexts import SEED_BYTES
from fhe_auc.rlwe.ring_parameters import SECURITY_BITS
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.aggregator import Aggregator, AggregatorSide
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.messages import Protection, Rounds
from fhe_auc.session.party import Party, PartySide, WhoCounts
from fhe_auc.session.protocol import Request
from fhe_auc_protocols import options as options_of
from fhe_auc_protocols import result_warnings
from fhe_auc_protocols.options import is_whole, privacy_budget
from fhe_auc_protocols.u_statistics import two_party
from fhe_auc_protocols.u_statistics.mechanisms import Integers
from fhe_auc_protocols.u_statistics.pairs import PairResponse, Pairs, matched
from fhe_auc_protocols.u_statistics.sessions import PrivateScores, merged_bins
from fhe_auc_protocols.u_statistics.two_party import REPLY_BYTES, REQUEST_BYTES, RING_DIMENSION, First, Second

MOST_BINS, MOST_PAIRINGS, MOST_REQUESTS = 1024, 16, 4096
MOST_NEGATIVES = 2**20  # of all: drawing 16 pairings takes 2 s
MOST_OF_ALL = 60_000  # requests: 2 GB, which one message carries
_FRAME_BYTES = 1024  # more than a name, a signature and lengths take
_OFFER_BYTES = _FRAME_BYTES + (MOST_REQUESTS + 1) * REQUEST_BYTES
_TOLD = b"told parties 1"  # the purpose of signatures on what parties tell each other
_ROUNDS = Rounds(4)


class Terms(NamedTuple):
    """What a session computes with."""

    bins: int
    pairings: int
    response: PairResponse


class UstatPairs(PrivateScores[Terms]):
    """Plug-in ``ustat-pairs``."""

    name = "ustat-pairs"
    summary = "random pairs, compared under noise by the two parties that have them; for small samples, unbiased AUC"
    trust = (
        "all parties, to follow the protocol: one that lies reads whole scores of others' rows, whatever epsilon is; "
        "nobody else with the scores; all with the labels, which are public"
    )
    options = options_of.USTAT_PAIRS

    def agreed(self, request: Request) -> dict[str, bool | int | float | str]:
        """Return the manifest's options."""
        return {**super().agreed(request), "pairings": request.options.get("pairings", 1)}  # type: ignore[dict-item]

    def terms(self, options: Mapping[str, object], thresholds: int) -> Terms:
        """Return bins, pairings and the law of an answer; raise `InputError` for a wrong option."""
        if not is_whole(pairings := options.get("pairings"), range(1, MOST_PAIRINGS + 1)):
            raise InputError(f"pairings must be a whole number from 1 to {MOST_PAIRINGS}, got {pairings!r}")
        bins = min(thresholds, MOST_BINS)
        return Terms(bins, pairings, PairResponse(privacy_budget(options), RING_DIMENSION - bins, pairings))

    def aggregator(self, manifest: Manifest, material: bytes) -> Aggregator:
        """Return the aggregator; `material` is empty."""
        return Aggregator(manifest, PairsAggregator(self, manifest))

    def new_party(self, manifest: Manifest, material: bytes, data: PartyData) -> Party[Evaluation]:
        """Return the party; `material` is empty. `InputError`: it has too many rows."""
        return Party(manifest, data.name, PairsParty(self, manifest, data))


class _Kept(SecretStruct, frozen=True):
    seed: bytes  # of the secret key
    negatives: tuple[int, ...]  # bins of these rows, until they have been compared
    told: bytes = b""  # digest of what it has told first, then of what all have
    counted: tuple[str, ...] = ()
    sizes: tuple[tuple[int, int], ...] = ()  # how many positives and negatives those have


class PairsAggregator(AggregatorSide):
    """Passes on what parties tell each other, and adds up their tallies."""

    rounds = _ROUNDS

    def __init__(self, protocol: UstatPairs, manifest: Manifest) -> None:
        self._manifest, self._pairings = manifest, protocol.checked(manifest).pairings
        self._told: list[dict[str, bytes]] = [{}, {}, {}]  # payloads of each round
        self._sizes: dict[str, tuple[int, int]] = {}
        self._asked: dict[str, tuple[int, int]] = {}  # how many replies a party makes, and how many it decrypts
        self._digests: dict[str, bytes] = {}  # of what each party has told first
        self._heard = b""  # digest of these

    def limit(self, number: int) -> int:
        """Return the largest payload of an answer in a round, in bytes."""
        most = max((replies for replies, _ in self._asked.values()), default=0)
        return _OFFER_BYTES if number == 1 else _FRAME_BYTES + most * REPLY_BYTES

    def accept(self, number: int, party: str, payload: bytes) -> None:
        """Take what a party tells the others, or its tally."""
        content = _told(number, party, payload, self.protection) if number < 3 else payload
        if number == 1:
            sizes, sent = _offer(content, self._manifest, self._pairings)
            for ciphertext in sent:
                two_party.check_request(ciphertext)
            self._sizes[party], self._digests[party] = sizes, _digest(1, content)
        elif number == 2:
            for reply in _replies(party, content, self._heard, self._asked[party][0]):
                two_party.checked_reply(reply)
        else:
            _tally(content, self._asked[party][1])
        self._told[number - 1][party] = payload

    def counts(self, number: int, parties: tuple[str, ...]) -> tuple[str, ...]:
        """Return all parties; after the first round it is known what each is asked for."""
        if number == 1:
            self._heard = _digest_of_all({party: self._digests[party] for party in parties})
            pairs = matched(self._manifest.session, [self._sizes[party] for party in parties], self._pairings)
            for index, party in enumerate(parties):
                of_party = pairs.negative_party == index, pairs.positive_party == index
                self._asked[party] = (int(of_party[0].sum()), int(of_party[1].sum()))
        return parties

    def close(self, number: int, counted: tuple[str, ...], keep: object) -> bytes:
        """Return what all have told, or the sum of their tallies."""
        told = [self._told[number - 1][party] for party in counted]
        if number < 3:
            return encode(tuple(zip(counted, told, strict=True)))
        return sum((np.frombuffer(tally, "<i8") for tally in told), np.zeros(3, "<i8")).tobytes()


class PairsParty(PartySide[Evaluation]):
    """Compares its rows with those of others; `InputError`: it has too many."""

    rounds = _ROUNDS

    def __init__(self, protocol: UstatPairs, manifest: Manifest, data: PartyData) -> None:
        self._protocol, self._manifest, self._name = protocol, manifest, data.name
        self._terms, self.download_limit = protocol.checked(manifest), manifest.size * _OFFER_BYTES
        bins, most = merged_bins(data, manifest, self._terms.bins), _most(manifest, self._terms.pairings)
        self._positives, negatives = bins[data.y_true].tolist(), tuple(bins[~data.y_true].tolist())
        if len(self._positives) > most[0] or len(negatives) > most[1]:
            raise InputError(
                f"party {data.name!r} has {len(self._positives):,} positive rows and {len(negatives):,} others, "
                f"{protocol.name} takes {most[0]:,} and {most[1]:,}: take ustat-hierarchy, or fewer pairings",
                party=data.name,
            )
        self._kept = _Kept(secrets.token_bytes(SEED_BYTES), negatives)

    def answer(self, number: int, payload: bytes, who: WhoCounts) -> bytes:
        """Return requests, replies, or the tally of the answers."""
        if number == 3:
            return self._tallied(_heard(2, payload, who))
        content = self._offered() if number == 1 else self._replied(_heard(1, payload, who))
        return encode((content, who.protection.sign(_TOLD, _digest(number, content)) if who.protection else b""))

    def _offered(self) -> bytes:
        first, rows = First(self._kept.seed), self._positives * self._terms.pairings
        requests = [first.request(row, self._terms.bins) for row in rows]
        content = encode((len(self._kept.negatives), b"".join([first.public_key(), *requests])))
        self._kept = _Kept(self._kept.seed, self._kept.negatives, _digest(1, content))
        return content

    def _replied(self, heard: dict[str, bytes]) -> bytes:
        pairings, table = self._terms.pairings, self._terms.response.table
        sizes, sent = zip(*[_offer(content, self._manifest, pairings) for content in heard.values()], strict=True)
        digests, before = {party: _digest(1, content) for party, content in heard.items()}, self._kept
        kept = _Kept(before.seed, (), _digest_of_all(digests), tuple(heard), sizes)
        own, seconds = kept.counted.index(self._name), [Second(key, table) for key, *_ in sent]
        if digests[self._name] != before.told:
            raise DeserialisationError(f"party {self._name!r} has told something else")
        pairs, replies = self._pairs(kept), []
        for pair in np.flatnonzero(pairs.negative_party == own).tolist():
            party, pairing = pairs.positive_party[pair], pair * pairings // len(pairs.positive)
            request = sent[party][1 + pairing * sizes[party][0] + pairs.positive[pair]]
            replies.append(seconds[party].reply(request, before.negatives[pairs.negative[pair]]))
        self._kept = kept
        return kept.told + b"".join(replies)

    def _tallied(self, heard: dict[str, bytes]) -> bytes:
        kept, pairs = self._kept, self._pairs(self._kept)
        if tuple(heard) != kept.counted:
            raise DeserialisationError("the parties that count are not those of the round before")
        told = zip(heard.items(), np.bincount(pairs.negative_party, minlength=len(heard)).tolist(), strict=True)
        replies = [reply for of_party, number in told for reply in _replies(*of_party, kept.told, number)]
        places = pairs.negative_party.argsort(kind="stable").argsort()  # of the pairs among these
        first, own = First(kept.seed), pairs.positive_party == kept.counted.index(self._name)
        answers = [first.answer(replies[place]) for place in places[own]]
        return np.bincount(answers, minlength=3).astype("<i8").tobytes()

    def _pairs(self, kept: _Kept) -> Pairs:
        return matched(self._manifest.session, kept.sizes, self._terms.pairings)

    def read(self, payload: bytes, who: WhoCounts) -> Evaluation:
        """Return what all answers say; raise `UndefinedAucError` where there is no pair."""
        who.check(self._kept.counted)
        rarer = min(map(sum, zip(*self._kept.sizes, strict=True)))
        tally = _tally(payload, self._terms.pairings * rarer)
        if not tally.any():
            raise UndefinedAucError(result_warnings.ONE_CLASS)
        estimate, parties = self._terms.response.auc(tally), len(self._kept.counted)
        found = self._protocol.estimated(self._manifest, estimate, self._terms.bins, parties)
        return replace(found, backend="ring-LWE of its own", security_bits=SECURITY_BITS)

    def kept(self) -> bytes:
        """Return what later rounds need, in which the rows may not be there."""
        return encode(self._kept)

    def restore(self, kept: bytes) -> None:
        """Take it back."""
        self._kept = decode(kept, _Kept, "party's state")


def _digest(number: int, content: bytes) -> bytes:
    return bytes([number]) + hashlib.sha256(content).digest()


def _digest_of_all(digests: Mapping[str, bytes]) -> bytes:
    """Return the digest of what all parties have told first, from that of each, in the session's order."""
    return _digest(2, encode(tuple(digests.items())))


def _told(number: int, party: str, payload: bytes, protection: Protection | None) -> bytes:
    """Return what a party tells in a round; `DeserialisationError` where it is malformed or not signed by it."""
    content, signature = decode(payload, tuple[bytes, bytes], "submission")
    if protection is not None:
        protection.check(party, _TOLD, _digest(number, content), signature)
    return content


def _heard(number: int, payload: bytes, who: WhoCounts) -> dict[str, bytes]:
    """Return what the parties that count tell in a round, by name; errors as `_told`, or where others count."""
    told = decode(payload, tuple[tuple[str, bytes], ...], "what parties tell")
    who.check(tuple(party for party, _ in told))
    return {party: _told(number, party, sent, who.protection) for party, sent in told}


def _most(manifest: Manifest, pairings: int) -> tuple[int, int]:
    return min(MOST_REQUESTS, MOST_OF_ALL // manifest.size) // pairings, MOST_NEGATIVES // manifest.size


def _offer(content: bytes, manifest: Manifest, pairings: int) -> tuple[tuple[int, int], list[bytes]]:
    """Return the numbers of positives and negatives, and the public key before all requests, by pairing."""
    negatives, sent = decode(content, tuple[int, bytes], "offer")
    positives, most = (len(sent) // REQUEST_BYTES - 1) // pairings, _most(manifest, pairings)
    if not 0 <= positives <= most[0] or not 0 <= negatives <= most[1]:
        raise DeserialisationError(f"a party cannot have {positives:,} positive and {negatives:,} negative rows")
    return (positives, negatives), _split(sent, REQUEST_BYTES, 1 + positives * pairings)


def _replies(party: str, content: bytes, heard: bytes, number: int) -> list[bytes]:
    """Return what a party replies; `DeserialisationError` where it was not told what has this digest."""
    if content[: len(heard)] != heard:
        raise DeserialisationError(
            f"party {party!r} was told another list, or other numbers or requests, than here: by the aggregator, or "
            "by a party that says two things"
        )
    return _split(content[len(heard) :], REPLY_BYTES, number)


def _split(content: bytes, size: int, number: int) -> list[bytes]:
    """Return so many ciphertexts of a size; `DeserialisationError`: there are others."""
    if len(content) != size * number:
        raise DeserialisationError(f"expected {number:,} ciphertexts of {size:,} bytes, got {len(content):,} bytes")
    return [content[start : start + size] for start in range(0, len(content), size)]


def _tally(payload: bytes, pairs: int) -> Integers:
    """Return how many of so many pairs gave each answer, shape (3,); `DeserialisationError`: this does not say it."""
    if len(payload) != 24 or (tally := np.frombuffer(payload, "<i8")).min() < 0 or sum(tally.tolist()) != pairs:
        raise DeserialisationError(f"these are not the answers of {pairs:,} pairs")
    return tally.astype(np.int64)
