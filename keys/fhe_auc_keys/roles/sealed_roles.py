"""Sealed keys: a key holder makes one secret key for all parties and seals it to each.

    1  "begin"                 ->  each party encodes its rows and encrypts
    2  the encrypted result    ->  (nothing: each party decrypts, and reads the result)

Where the result is checked against an aggregator that may lie, parties compare first what they were given
(`fhe_auc_keys.roles.key_mode.Echo`).

    2  the encrypted result    ->  an echo: what each party tells the others of the result it was given
    3  all echoes              ->  (nothing: where all were given the same, each party decrypts, and reads the result)

Where parties submit under pads: `fhe_auc_keys.roles.padded_roles`.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.party_names import NAME_BYTES
from fhe_auc.base.serialise import decode, encode
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.session.aggregator import Aggregator
from fhe_auc.session.computation import PartyTask, Result, SealedComputation
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import R
from fhe_auc.session.plan import EncryptedPlan
from fhe_auc.session.protocol import Delivery
from fhe_auc.session.running_sum import RunningSum
from fhe_auc_keys.bundles.announcement import Announcement, open_announcement
from fhe_auc_keys.bundles.sealed_bundles import (
    announcement_digest,
    open_aggregator_bundle,
    seal_to_aggregator,
    seal_to_party,
    unseal_for_party,
)
from fhe_auc_keys.bundles.session_keys import KeyHolderSession, PartySecrets, new_session_keys, party_secrets
from fhe_auc_keys.roles.key_mode import ECHO_BYTES, Echo, KeyedParty, KeyMode, reading_material
from fhe_auc_keys.roles.local_consortium import Consortium


class SealedAggregator(Aggregator):
    """Adds submissions up as they arrive, then computes the result.

    `running_sum` is empty; `result` computes, of the parties that count and the sum of their submissions. No honest
    message has as many bytes as `limit`. With an `echo`, parties compare the result.
    """

    def __init__(
        self,
        manifest: Manifest,
        running_sum: RunningSum,
        result: Callable[[tuple[str, ...], list[Words]], bytes],
        *,
        limit: int,
        echo: Echo | None = None,
    ) -> None:
        super().__init__(manifest)
        self.rounds = 2 if echo is None else 3
        self.open_rounds = self.rounds - 1  # whoever sees an echo learns nothing from it
        self.submission_limit = limit
        self._sum = running_sum
        self._result = result
        self._echoes: dict[str, bytes] = {}

    def _accept(self, party: str, payload: bytes) -> None:
        if self.round == 1:
            self._sum.add(decode(payload, tuple[bytes, ...], "submission"))
        elif self._must_answer():
            if len(payload) != ECHO_BYTES:
                raise DeserialisationError(f"expected an echo of {ECHO_BYTES} bytes, got {len(payload)}")
            self._echoes[party] = payload

    def _close(self) -> bytes:
        if self.round > 1:
            return encode(tuple(self._echoes[party] for party in self.counted))
        return encode(Result(self.counted, self._result(self.counted, self._sum.totals)))

    def _least(self) -> int:
        return self.manifest.min_parties if self.round == 1 else len(self.counted)  # nobody counted may miss the echo


class SealedParty(KeyedParty[R]):
    """Submits, then reads the result.

    `submit` makes the parts of its submission, `read` the outcome of a result. No honest message has as many bytes as
    `limit`, beside names. With an `echo`, parties compare the result, by the `common_secret` that all have, 32 bytes.
    """

    def __init__(
        self,
        manifest: Manifest,
        name: str,
        submit: Callable[[], tuple[bytes, ...]],
        read: Callable[[Result], R],
        *,
        limit: int,
        echo: Echo | None = None,
        common_secret: bytes,
    ) -> None:
        super().__init__(manifest, name)
        self.rounds = 2 if echo is None else 3
        self.open_rounds = self.rounds - 1  # whoever sees an echo learns nothing from it
        # A result names all that count; an echo is shorter than the longest name.
        self.download_limit = limit + NAME_BYTES * len(manifest.parties)
        self._submit, self._read = submit, read
        self._echo = echo
        self._common_secret = common_secret
        self._compared = b""  # the result, until the parties have compared it

    def _own_state(self) -> bytes:
        return self._compared

    def _restore_own(self, own: bytes) -> None:
        self._compared = own

    def _answer(self, round_number: int, payload: bytes) -> bytes:
        if round_number == 1:
            with self._timed("submit"):
                return encode(self._submit())
        if round_number == 2:
            result = decode(payload, Result, "result")
            self._check_named(result.counted)
            if self._echo is not None:
                self._compared = payload
                return self._echo.of(payload, self.manifest, self._common_secret)[self.name]
        with self._timed("recover"):
            if self._echo is not None:
                result, echoes = decode(self._compared, Result, "result"), decode(payload, tuple[bytes, ...], "echoes")
                expected = self._echo.of(self._compared, self.manifest, self._common_secret)
                self._echo.compare(echoes, expected, result.counted)
            self._end(self._read(result))
        return b""


class SealedSession(KeyHolderSession):
    """What the key holder has made."""

    def delivery(self) -> Delivery:
        """Seal the keys to a certified aggregator and certified parties; return what they open."""
        consortium = Consortium(self.manifest.parties)
        trust, holder, at = consortium.trust, consortium.holder, consortium.at
        announcement = consortium.convene(self.manifest)
        announced = open_announcement(announcement, trust, holder=holder, at=at)
        bundle = seal_to_aggregator(consortium.identities[holder], self, announcement, announced)
        adder = consortium.identities[consortium.aggregator]
        opened = open_aggregator_bundle(bundle, adder, trust, holder=holder, session=self.manifest.session, at=at)
        return Delivery(opened.material, _OpenedMaterials(consortium, self, announcement, announced))


class SealedKeys(KeyMode):
    """A key holder makes the keys, and parties encrypt; `computation` makes a `SealedComputation`."""

    def prepare(self, plan: EncryptedPlan, announced: Callable[..., Manifest]) -> KeyHolderSession:
        """Make the keys."""
        return SealedSession(*new_session_keys(plan.parameters, announced))

    def aggregator(self, manifest: Manifest, material: bytes) -> SealedAggregator:
        """Return the aggregator; `material` is a public context."""
        computation = self.computation(manifest)
        return computing_aggregator(manifest, computation, computation.load_public(material), self.echo)

    def party(self, manifest: Manifest, material: bytes, task: PartyTask[Any, Any, Any]) -> SealedParty[Any]:
        """Return the party; `material` is `fhe_auc_keys.bundles.session_keys.PartySecrets`."""
        own, computation = own_secrets(material, manifest), self.computation(manifest)
        keys, secret = computation.load_secret(own.context), own.common_secret
        return decrypting_party(manifest, computation, keys, task, self.echo, common_secret=secret)


def computing_aggregator(
    manifest: Manifest, computation: SealedComputation[Any, Any, Any, Any], keys: Any, echo: Echo | None = None
) -> SealedAggregator:
    """Return the aggregator of ciphertexts; `keys` come from the computation's `load_public`."""

    def result(_: tuple[str, ...], totals: list[Words]) -> bytes:
        return computation.aggregate(keys, totals)

    limit = computation.payload_limit
    return SealedAggregator(manifest, computation.running_sum(keys), result, limit=limit, echo=echo)


def decrypting_party(
    manifest: Manifest,
    computation: Any,
    keys: Any,
    task: PartyTask[Any, Any, R],
    echo: Echo | None = None,
    *,
    common_secret: bytes,
    submit: Callable[[], tuple[bytes, ...]] | None = None,
) -> SealedParty[R]:
    """Return a party that decrypts with `keys`, from `load_secret`; without a `submit`, it encrypts with them, too."""

    def encrypt() -> tuple[bytes, ...]:  # no `partial`, which would print the secret
        parts: tuple[bytes, ...] = computation.encrypt(keys, task, common_secret)
        return parts

    def read(result: Result) -> R:
        return task.read(computation.decrypt(keys, result.content), result.counted, common_secret)

    limit = computation.payload_limit
    return SealedParty(
        manifest, task.party, submit or encrypt, read, limit=limit, echo=echo, common_secret=common_secret
    )


def own_secrets(material: bytes, manifest: Manifest) -> PartySecrets:
    """Return what a party's material holds; raise `InputError` where it is malformed or another session's."""
    with reading_material():
        return party_secrets(material, manifest)


class _OpenedMaterials(Mapping[str, bytes]):
    """What each party has once it has opened what is sealed to it: made when it is asked for, as all at once is big."""

    def __init__(
        self, consortium: Consortium, session: KeyHolderSession, announcement: bytes, announced: Announcement
    ) -> None:
        self._consortium, self._session, self._announced = consortium, session, announced
        self._digest = announcement_digest(announcement)

    def __getitem__(self, name: str) -> bytes:
        header, sealed = seal_to_party(self._session.secrets_of(name), self._announced, self._digest, name)
        (me,) = self._consortium.peers([name])
        return unseal_for_party(header, sealed, self._announced, self._digest, self._consortium.identities[name], me)

    def __iter__(self) -> Iterator[str]:
        return iter(self._session.manifest.parties)

    def __len__(self) -> int:
        return len(self._session.manifest.parties)
