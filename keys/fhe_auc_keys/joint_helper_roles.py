"""Roles of a session with several helpers, two or three: each holds a share of the key, and a share of every pad.

    1  "begin"                   ->  party: a padded sketch; and a blob for each helper (`fhe_auc_keys.helper_roles`)
    2  all blobs                 ->  helper: whose do not open; a commitment to its parts of the keys, and to the
                                     encryption of its blind
    3  all answers of round 2    ->  helper: what it has committed to; minus its blind and the sum of its pads, of those
                                     who count: the parties whose blobs open at every helper
    4  the sum of the padded     ->  helper: its partial decryption of the result, sealed to the other helpers
       sketches, all answers
       of round 3
    5  all partial decryptions   ->  helper: the sums, sealed under the response keys
    6  the sums of all helpers   ->  (nothing: each party that counts unseals, compares, checks and reads them)

What helpers have contributed, the aggregator passes on to all of them. Each contribution is signed together with the
digest of everything that its author was given in the session by then (`_following`), and a helper takes no other's that
was given anything else. So all helpers that are honest have the same list of who counts, and the same sum of the padded
sketches; whose contribution differs is named.

Trust. One party's rows, and the pool of all, take all helpers: the others lack a share of every pad and of the key,
whoever else is with them, and whatever they and the aggregator send. For that

- helpers compute the result themselves, from what round 3 and the parties have brought (`HelpersComputation.result`):
  of the aggregator's they take the sum of the padded sketches alone, and what hides in a result is their own;
- nobody chooses its part of the keys, or its ciphertexts, after it has seen another's: they are committed to while
  nothing is known of the others', with the name of who commits. Whoever could choose the sums of such parts, as the
  last to send its own, could have a helper's share decrypt to something readable. What depends on who counts is said in
  the clear, under a blind: it cannot steer a ciphertext.

A deviating aggregator with a party, or all helpers but one, gets the sums at a pool of its making, as many numbers as
are released: it may add to the sum of the sketches, once, what it likes.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from fhe_auc.computation import HelpersComputation, SealedComputation
from fhe_auc.errors import DeserialisationError, InputError
from fhe_auc.manifest import Manifest
from fhe_auc.messages import Message
from fhe_auc.party_names import MAX_CHARACTERS
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.serialise import decode, encode
from fhe_auc_keys.errors import TamperedError
from fhe_auc_keys.group_sealing import seal_to_all, unseal_mine
from fhe_auc_keys.helper_roles import OPEN, BaseHelpedAggregator, BaseHelper, HelperMaterial, too_few
from fhe_auc_keys.identity import signed_bytes
from fhe_auc_keys.roster import Contribution, Roster, blaming, one_of_each
from fhe_auc_keys.session_keys import SEED_BYTES

_REVEAL, _PARTIAL = 3, 4  # rounds; `OPEN` is the one before
_COMMITTED_BYTES = 32
_PARTIAL_PURPOSE = b"helper's partial decryption 1"
_SLACK = 4096  # bytes of signatures and names, generously
_FOREIGN = "it is damaged, or {} was given something else by the aggregator"


class _Summed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What helpers compute the result from."""

    padded: tuple[bytes, ...]  # the sum of all submissions that count
    contributions: tuple[Contribution, ...]


class _State(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a helper holds between rounds; every round puts a new one in its place."""

    given: bytes  # digest of all that it was given so far
    share: bytes = b""  # of the secret key, until the partial decryption is made
    blind: bytes = b""  # until the next round
    parts: tuple[bytes, ...] = ()  # which it has committed to, until the next round
    secrets: tuple[
        tuple[str, bytes], ...
    ] = ()  # of parties whose blobs open: seeds until the next round, response keys
    others: tuple[str, ...] = ()  # parties whose blobs do not, until the next round
    commitments: tuple[bytes, ...] = ()  # of all helpers, from round 3 on
    result: bytes = b""  # from round 4 on
    partial: bytes = b""  # its partial decryption, likewise

    def __repr__(self) -> str:
        return "<state of a helper (secret)>"


class JointHelpersAggregator(BaseHelpedAggregator):
    """Adds up submissions, and passes on what helpers must see of one another.

    Raises `InputError` where the roster is of another number of helpers.
    """

    def __init__(
        self,
        manifest: Manifest,
        computation: SealedComputation[Any, Any, Any, Any],
        roster: Roster,
        together: HelpersComputation[Any],
    ) -> None:
        super().__init__(manifest, computation)
        if len(roster.members) != computation.helpers:
            raise InputError(f"the roster names {len(roster.members)} helpers, the session has {computation.helpers}")
        self._roster = roster
        self._together = together
        self._given = roster.binding(manifest)
        self._contributions: dict[str, Contribution] = {}

    @property
    def _help_limit(self) -> int:
        return self._together.payload_limit + _SLACK * len(self._helpers)

    def _open_next(self, payload: Callable[[], bytes]) -> bytes:
        message = super()._open_next(payload)
        if self._helping:
            self._given = _following(self._given, Message.from_bytes(message, limit=len(message)).payload)
        self._contributions = {}
        return message

    def _accept_help(self, helper: str, payload: bytes) -> set[str]:
        found, left_out = decode(payload, Contribution, "contribution"), set[str]()
        author = self._roster.members[self._helpers.index(helper)].name
        with blaming(author):
            found.check(self._roster, self._given, self.round, author)
        if self.round == OPEN:
            _, named = _opening_of(found)
            left_out = self._left_out_of(named)
        elif self.round == _REVEAL:
            self._together.check(found.parts)
        elif len(found.parts) != 1:
            raise DeserialisationError(f"expected one part, got {len(found.parts)}")
        self._contributions[helper] = found
        return left_out

    def _close_help(self) -> bytes:
        contributions = tuple(self._contributions[helper] for helper in self._helpers)
        if self.round != _REVEAL:
            return encode(contributions)
        total = self._added(self._computation.running_sum(None))
        return encode(_Summed(self._together.packed(total.totals), contributions))


class JointHelper(BaseHelper):
    """One of several: knows a share of every pad and of the key, and decrypts only together with all others.

    Errors as `BaseHelper`.
    """

    def __init__(
        self,
        manifest: Manifest,
        computation: SealedComputation[Any, Any, Any, Any],
        own: HelperMaterial,
        together: HelpersComputation[Any],
    ) -> None:
        super().__init__(manifest, computation, own)
        self._roster = own.helpers
        self._together = together
        self._state = _State(own.helpers.binding(manifest))
        names = (4 * MAX_CHARACTERS + 8) * len(manifest.parties)
        contributions = len(own.helpers.members) * (together.payload_limit + names + _SLACK)
        self.download_limit = max(self.download_limit, computation.payload_limit + contributions)

    def _own_state(self) -> bytes:
        return encode(self._state)

    def _restore_own(self, own: bytes) -> None:
        self._state = decode(own, _State, "state of a helper")

    def _answer(self, round_number: int, payload: bytes) -> bytes:
        given = _following(self._state.given, payload)
        if round_number == OPEN:
            return self._commit(given, payload)
        if round_number == _REVEAL:
            return self._reveal(given, payload)
        if round_number == _PARTIAL:
            return self._decrypt(given, payload)
        return self._return(payload)

    def _commit(self, given: bytes, payload: bytes) -> bytes:
        """Open blobs, and draw the share of the key and the blind; nothing of them is shown yet."""
        opened = self._opened(payload)
        share, blind = self._together.share_type(self._together.setup), secrets.token_bytes(SEED_BYTES)
        parts = self._together.parts(share, blind, first=self._number == 0)
        others = tuple(party for party, secret in opened.items() if secret is None)
        self._state = _State(
            given,
            share.saved(),
            blind,
            parts,
            tuple((party, secret) for party, secret in opened.items() if secret is not None),
            others,
        )
        return self._signed(OPEN, (_commitment(self._identity.name, parts), encode(others)))

    def _reveal(self, given: bytes, payload: bytes) -> bytes:
        """Say what was committed to, and minus the sum of the pads of those who count, blinded; seeds are gone then."""
        state, commitments = self._state, []
        known = {party for party, _ in state.secrets} | set(state.others)
        left_out: set[str] = set()
        for helper, contribution in self._from_all(OPEN, payload):
            with blaming(helper):
                commitment, named = _opening_of(contribution)
                if not set(named) <= known:
                    raise TamperedError("it leaves out a party that has sent nothing")
                commitments.append(commitment)
                left_out |= set(named)
        counted = {party: secret for party, secret in state.secrets if party not in left_out}
        if len(counted) < self.manifest.min_parties:
            raise too_few(counted, left_out.union(state.others), self.manifest)
        seeds = {party: secret[:SEED_BYTES] for party, secret in counted.items()}
        remainder = self._together.remainder(seeds, state.blind)
        self.opened = tuple(counted)
        keys = tuple((party, secret[SEED_BYTES:]) for party, secret in counted.items())
        self._state = _State(given, state.share, secrets=keys, commitments=tuple(commitments))
        return self._signed(_REVEAL, (*state.parts, *remainder))

    def _decrypt(self, given: bytes, payload: bytes) -> bytes:
        """Compute the result, and return a partial decryption of it, sealed to the other helpers; the share is gone."""
        state, together = self._state, self._together
        summed = decode(payload, _Summed, "sum of the submissions")
        parts = []
        revealed = zip(self._checked(_REVEAL, summed.contributions), state.commitments, strict=True)
        for (helper, contribution), commitment in revealed:
            with blaming(helper):
                together.check(contribution.parts)
                if _commitment(helper, contribution.parts[: together.revealed]) != commitment:
                    raise TamperedError("it is not what the helper has committed to")
                parts.append(contribution.parts)
        result, keys = together.result(summed.padded, parts)
        share = together.share_type.restored(together.setup, state.share)
        partial = together.partial(share, result, keys)
        self._state = _State(given, secrets=state.secrets, result=result, partial=partial)
        others = {name: key for name, key in self._roster.encryption_keys.items() if name != self._identity.name}
        sealed = seal_to_all(others, partial, info=self._info(self._identity.name), associated=_sha256(result))
        return self._signed(_PARTIAL, (sealed,))

    def _return(self, payload: bytes) -> bytes:
        """Add up all partial decryptions, and return the sums, which parties read."""
        state = self._state
        totals = self._together.combine(state.result, self._partials(payload))
        self._state = _State(state.given)
        return self._response(dict(state.secrets), totals)

    def _partials(self, payload: bytes) -> Iterator[Words]:
        shape, associated = self._together.partial_shape, _sha256(self._state.result)
        for helper, contribution in self._from_all(_PARTIAL, payload):
            with blaming(helper):
                partial = self._state.partial
                if helper != self._identity.name:
                    (sealed,) = contribution.parts if len(contribution.parts) == 1 else (b"",)
                    partial = unseal_mine(self._identity, sealed, info=self._info(helper), associated=associated)
                yield shape.unpack(partial)

    def _from_all(self, round_number: int, payload: bytes) -> Iterator[tuple[str, Contribution]]:
        """Yield every helper's contribution of a round, by the name in its certificate."""
        return self._checked(round_number, decode(payload, tuple[Contribution, ...], "contributions"))

    def _checked(
        self, round_number: int, contributions: tuple[Contribution, ...]
    ) -> Iterator[tuple[str, Contribution]]:
        names = [member.name for member in self._roster.members]
        for helper, contribution in one_of_each(names, contributions):
            with blaming(helper):
                try:
                    contribution.check(self._roster, self._state.given, round_number, helper)
                except TamperedError as error:
                    raise TamperedError(f"{error}: {_FOREIGN.format(helper)}") from None
            yield helper, contribution

    def _info(self, sender: str) -> bytes:
        return signed_bytes(_PARTIAL_PURPOSE, encode((self._state.given, sender)))

    def _signed(self, round_number: int, parts: tuple[bytes, ...]) -> bytes:
        return encode(Contribution.sign(self._identity, self._state.given, round_number, parts))


def _opening_of(contribution: Contribution) -> tuple[bytes, tuple[str, ...]]:
    """Return commitment and list in a contribution of round 2; raise `DeserialisationError` where it is none."""
    if len(contribution.parts) != 2 or len(contribution.parts[0]) != _COMMITTED_BYTES:
        raise DeserialisationError("a commitment and a list are expected")
    commitment, named = contribution.parts
    return commitment, decode(named, tuple[str, ...], "list of parties")


def _commitment(helper: str, parts: tuple[bytes, ...]) -> bytes:
    """Return what commits a helper, by the name in its certificate, to parts; they are random, and hidden by it."""
    return _sha256(encode((helper, tuple(_sha256(part) for part in parts))))


def _following(given: bytes, payload: bytes) -> bytes:
    """Return the digest of all that a helper was given, from that of what came before and what it is given now."""
    return _sha256(given + _sha256(payload))


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
