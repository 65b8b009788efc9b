"""Payloads that are no honest ciphertexts, and keys of others, are refused; the session still ends right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fhe_auc import ckks
from fhe_auc.base.errors import (
    MessageError,
    ResultCheckError,
    UndefinedAucError,
)
from fhe_auc.base.serialise import decode, encode
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.rlwe.ciphertexts import wrap
from fhe_auc.rlwe.polynomials import Polynomials
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.protocol import Session
from fhe_auc_protocols.blinded_auc.published_digits import published
from fhe_auc_protocols.blinded_auc.result_check import Recovered
from fhe_auc_protocols.blinded_auc.semi_honest import SemiHonest
from tests.support.pooled import pooled_counts
from tests.support.roles import SessionRoles
from tests.support.wire import changed, flipped, payload_of

pytestmark = pytest.mark.backends("one")  # messages, rounds and refusals are the same on each


def auc_of(sites: list[PartyData]) -> Any:
    """Their pooled AUC in the clear, with the digits that are published."""
    exact = trapezoid(pooled_counts(sites, np.linspace(0, 1, 16)))
    return published(Recovered(exact.auc, exact.binning_error))[0].auc


class Roles(SessionRoles):
    """All roles of a prepared session."""

    @classmethod
    def of(cls, session: Session, sites: list[PartyData]) -> Roles:
        aggregator = SemiHonest().aggregator(session.manifest, session.aggregator_material)
        parties = [SemiHonest().party(session.manifest, encode(session.common), data) for data in sites]
        return cls(session, sites, aggregator, parties)

    def check(self, outcome: Any) -> None:
        assert outcome.auc == auc_of(self.sites)


@pytest.fixture
def roles(prepared: Session, site_rows: list[PartyData]) -> Roles:
    return Roles.of(prepared, site_rows)


@pytest.fixture
def submissions(roles: Roles) -> list[bytes]:
    return roles.submit()


PAYLOADS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda payload: b"",
    "not msgpack": lambda payload: b"\xc1" * 100,
    "no ciphertext": lambda payload: encode(()),
    "two ciphertexts for one": lambda payload: encode(decode(payload, tuple[bytes, ...], "") * 2),
    "text": lambda payload: encode(("text",)),
    "a ciphertext truncated": lambda payload: encode((decode(payload, tuple[bytes, ...], "")[0][:-1],)),
    "nested": lambda payload: b"\x91" * 50_000,
}


@pytest.mark.backends("all")
def test_a_good_envelope_with_a_bad_payload_is_refused_and_forgotten(
    roles: Roles, submissions: list[bytes], other_prepared: Session
) -> None:
    payload = payload_of(submissions[1])
    for spoilt in PAYLOADS.values():
        with pytest.raises(MessageError, match="submission of party 'south' refused: "):
            roles.aggregator.receive("south", changed(submissions[1], payload=spoilt(payload)))
    with pytest.raises(MessageError, match="checksum"):  # damage on the way shows in the message
        roles.aggregator.receive("south", flipped(submissions[1], 5000))
    foreign = payload_of(Roles.of(other_prepared, roles.sites).submit()[1])
    with pytest.raises(MessageError, match="under another key") as caught:
        roles.aggregator.receive("south", changed(submissions[1], payload=foreign))
    assert caught.value.field == "fingerprint"
    roles.finish(submissions)


def well_formed_result(session: Session, draw: Callable[[int, int], Any]) -> bytes:
    """A result of which `draw` chooses coefficients, so many modulo a prime; those of sums first, then polynomials."""
    public = ckks.load_public(session.aggregator_material)
    kept = public.ciphertext_shape.moduli[: public.parameters.kept]
    parts = []
    for size in (4, 8192, 8192):
        shape = Polynomials(size, kept)
        parts.append(shape.pack(np.array([draw(prime, size) for prime in kept], np.uint64)))
    return wrap("result", public.fingerprint, b"".join(parts))


def drawn(seed: int) -> Callable[[int, int], Any]:
    generator = np.random.default_rng(seed)
    return lambda prime, size: generator.integers(0, prime, size, dtype=np.uint64)


def test_well_formed_garbage_gives_no_number_and_no_second_answer_and_the_one_answer_does_not_tell(
    roles: Roles, submissions: list[bytes]
) -> None:
    """Otherwise the aggregator could ask again and again, and would learn one bit about the key each time.

    Nor may it see whether a check has failed, which depends on what it has chosen: one bit of each party.
    """
    result = roles.deliver(submissions)
    good_answer = roles.parties[2].respond(result)
    for victim, seed in zip(roles.parties, (3, 4), strict=False):
        bad = changed(
            result, payload=encode((roles.aggregator.counted, well_formed_result(roles.session, drawn(seed))))
        )
        answer = victim.respond(bad)
        assert changed(answer, sender="anybody") == changed(good_answer, sender="anybody")
        roles.aggregator.receive(victim.name, answer)
        for _ in range(2):
            with pytest.raises((ResultCheckError, UndefinedAucError)):
                victim.result()
            with pytest.raises(MessageError):
                victim.respond(result)
