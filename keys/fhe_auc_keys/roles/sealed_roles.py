"""Sealed keys: a key holder makes one secret key for all parties and seals it to each.

    1  "begin"                 ->  each party encodes its rows and encrypts
    2  the encrypted result    ->  (nothing: each party decrypts, and reads the result)

Where the result is checked against an aggregator that may lie, parties compare first what they were given
(`fhe_auc_keys.roles.key_mode.Echo`).

    2  the encrypted result    ->  an echo: what each party tells the others of the result it was given
    3  all echoes              ->  (nothing: where all were given the same, each party decrypts, and reads the result)

Where parties submit under pads: `fhe_auc_keys.roles.padded_roles`.
"""

from collections.abc import Callable
from typing import Any, cast

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.names import NAME_BYTES
from fhe_auc.base.serialise import decode, encode
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.session.aggregator import Aggregator
from fhe_auc.session.computation import PartyTask, Result
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import R
from fhe_auc.session.plan import EncryptedPlan
from fhe_auc.session.protocol import Delivery
from fhe_auc.session.running_sum import RunningSum
from fhe_auc_keys.bundles.session_keys import KeyHolderSession, PartySecrets, new_session_keys, party_secrets
from fhe_auc_keys.roles.key_mode import ECHO_BYTES, Echo, KeyedParty, KeyMode, MadeWhenAsked, reading_material


class SealedAggregator(Aggregator):
    """Adds submissions up as they arrive, then computes the result; `keys` are from the computation's `load_public`.

    With an `echo`, parties compare the result.
    """

    def __init__(self, manifest: Manifest, computation: Any, keys: Any, echo: Echo | None = None) -> None:
        super().__init__(manifest)
        self.rounds = 2 if echo is None else 3
        self.open_rounds = self.rounds - 1  # whoever sees an echo learns nothing from it
        self.submission_limit = computation.payload_limit
        self._computation, self._keys = computation, keys
        self._sum = self._empty_sum()
        self._echoes: dict[str, bytes] = {}

    def _empty_sum(self) -> RunningSum:
        return cast("RunningSum", self._computation.running_sum(self._keys))

    def _result(self, totals: list[Words]) -> bytes:
        """Return the result over the parties that count, from the sum of their submissions."""
        return cast("bytes", self._computation.aggregate(self._keys, totals))

    def _accept(self, party: str, payload: bytes) -> None:
        if self.round == 1:
            self._sum.add(decode(payload, tuple[memoryview, ...], "submission"))  # uncopied
        elif self._must_answer():
            if len(payload) != ECHO_BYTES:
                raise DeserialisationError(f"expected an echo of {ECHO_BYTES} bytes, got {len(payload)}")
            self._echoes[party] = payload

    def _close(self) -> bytes:
        if self.round > 1:
            return encode(tuple(self._echoes[party] for party in self.counted))
        return encode(Result(self.counted, self._result(self._sum.totals)))

    def _least(self) -> int:
        return self.manifest.min_parties if self.round == 1 else len(self.counted)  # nobody counted may miss the echo


class SealedParty(KeyedParty[R]):
    """Encrypts and submits, then decrypts and reads the result; `keys` are from the computation's `load_secret`.

    With an `echo`, parties compare the result, by the `common_secret` that all have, 32 bytes.
    """

    def __init__(
        self,
        manifest: Manifest,
        computation: Any,
        keys: Any,
        task: Any,
        echo: Echo | None = None,
        *,
        common_secret: bytes,
    ) -> None:
        super().__init__(manifest, task.party)
        self.rounds = 2 if echo is None else 3
        self.open_rounds = self.rounds - 1  # whoever sees an echo learns nothing from it
        # A result names all that count; an echo is shorter than the longest name.
        self.download_limit = computation.payload_limit + NAME_BYTES * len(manifest.parties)
        self._computation, self._keys, self._task = computation, keys, task
        self._echo = echo
        self._common_secret = common_secret
        self._compared = b""  # the result, until the parties have compared it

    def _own_state(self) -> bytes:
        return self._compared

    def _restore_own(self, own: bytes) -> None:
        self._compared = own

    def _submission(self) -> tuple[bytes, ...]:
        return cast("tuple[bytes, ...]", self._computation.encrypt(self._keys, self._task, self._common_secret))

    def _answer(self, round_number: int, payload: bytes) -> bytes:
        if round_number == 1:
            with self._timed("submit"):
                return encode(self._submission())
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
            self._end(self._computation.outcome(self._keys, self._task, result, self._common_secret))
        return b""


class SealedSession(KeyHolderSession):
    """What the key holder has made."""

    def delivery(self) -> Delivery:
        """Return what each role finds in its bundle: in one process nothing is sealed, only to be opened again."""
        return Delivery(
            self.aggregator_material, MadeWhenAsked(lambda name: encode(self.secrets_of(name)), self.manifest.parties)
        )


class SealedKeys(KeyMode):
    """A key holder makes the keys, and parties encrypt; `computation` makes a `SealedComputation`."""

    def prepare(self, plan: EncryptedPlan, announced: Callable[..., Manifest]) -> KeyHolderSession:
        """Make the keys."""
        return SealedSession(*new_session_keys(plan.parameters, announced))

    def aggregator(self, manifest: Manifest, material: bytes) -> SealedAggregator:
        """Return the aggregator; `material` is a public context."""
        computation = self.computation(manifest)
        return SealedAggregator(manifest, computation, computation.load_public(material), self.echo)

    def party(self, manifest: Manifest, material: bytes, task: PartyTask[Any, Any, Any]) -> SealedParty[Any]:
        """Return the party; `material` is `fhe_auc_keys.bundles.session_keys.PartySecrets`."""
        own, computation = own_secrets(material, manifest), self.computation(manifest)
        keys = computation.load_secret(own.context)
        return SealedParty(manifest, computation, keys, task, self.echo, common_secret=own.common_secret)


def own_secrets(material: bytes, manifest: Manifest) -> PartySecrets:
    """Return what a party's material holds; raise `InputError` where it is malformed or another session's."""
    with reading_material():
        return party_secrets(material, manifest)
