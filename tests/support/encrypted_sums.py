"""What an aggregator, honest or not, sends as the sum of submissions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from fhe_auc import ckks
from fhe_auc.base.serialise import decode, encode
from fhe_auc.session.ckks_computation import running_sum
from fhe_auc.session.computation import Result
from fhe_auc.session.messages import Message
from fhe_auc.session.submissions import RunningSum
from fhe_auc_protocols.histograms.encrypted_sums import encrypted_sum


def result_of(context: ckks.PublicContext, running: RunningSum) -> bytes:
    """The encrypted sum, as parties get it."""
    return context.dump_result(encrypted_sum(context, [context.ciphertext(words) for words in running.totals]))


def sum_of_answers(context: ckks.PublicContext, answers: Sequence[Message], told: Iterable[int]) -> bytes:
    """The encrypted sum of the submissions with these indices, however often each."""
    running = running_sum(context, 1)
    for index in told:
        running.add(decode(answers[index].payload, tuple[bytes, ...], "submission"))
    return result_of(context, running)


def telling(answer: Message, counted: Sequence[str], ciphertext: bytes) -> bytes:
    """The aggregator's last message of the session in which `answer` was given, with this result."""
    payload = encode(Result(tuple(counted), ciphertext))
    return msgspec.structs.replace(answer, sender="aggregator", round=2, payload=payload).to_bytes()
