"""Ingest on several cores: branches of an aggregator in processes of their own.

    ingest(aggregator, material, [Inbox(north_parties, NorthFolder()), Inbox(south_parties, SouthFolder())])

What a branch takes in does not pass through the aggregator's process: each reads its own inbox. Processes, not threads:
most of the work is hashing and arithmetic that hold Python's lock in between.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import chain
from typing import cast

from fhe_auc import registry
from fhe_auc.errors import EvaluationError, InputError, MessageError
from fhe_auc.manifest import Manifest
from fhe_auc_keys.sealed_roles import Branch, SealedAggregator
from fhe_auc_keys.session_signatures import SessionSignatures


@dataclass(frozen=True)
class Inbox:
    """Where the submissions of some parties arrive; every party of a session has one inbox.

    `read` is called in the branch's process, to which it is pickled; it returns pairs of who the transport says a
    submission is from, and its bytes, one at a time.
    """

    parties: tuple[str, ...]
    read: Callable[[], Iterable[tuple[str, bytes]]]


def ingest(
    aggregator: SealedAggregator, material: bytes, inboxes: Sequence[Inbox], *, processes: int | None = None
) -> None:
    """Add up the submissions of all inboxes, a branch for each, and hand the sums to the aggregator.

    Submissions that are refused are in the aggregator's record; they spoil nothing. Where a branch fails, sums handed
    over before stay in: the parties that the aggregator has not counted can be ingested again. Processes start afresh,
    so that a script has to guard what it does by ``if __name__ == "__main__"``.

    The aggregator is started, and what it has been given so far stays in; `material` is what it was made from. So many
    `processes` run at a time, None: one for each inbox.

    Raises
    ------
    InputError
        A party is in two inboxes, and would be counted twice; or there is nothing to do, or nobody to do it.
    MessageError
        A party of an inbox has been counted already.
    EvaluationError
        A branch's process died.
    OSError and others
        Whatever an inbox's `read` raised.
    """
    if not inboxes or (processes is not None and processes < 1):
        raise InputError("ingesting takes an inbox and a process at least")
    seen: set[str] = set()
    for party in chain.from_iterable(inbox.parties for inbox in inboxes):
        if party in seen:
            raise InputError(f"party {party!r} is in two inboxes, or twice in one; it would be counted twice")
        seen.add(party)
    spawn = multiprocessing.get_context("spawn")  # OpenMP's threads do not survive a fork
    manifest = aggregator.manifest.to_bytes()
    count = len(inboxes)
    pool = ProcessPoolExecutor(processes or count, mp_context=spawn)
    try:
        signatures = aggregator.signatures
        own = signatures.to_bytes() if isinstance(signatures, SessionSignatures) else b""
        given = [manifest] * count, [material] * count, inboxes, [own] * count
        for partial in pool.map(partial_sum, *given):
            aggregator.receive_partial(partial)
    except BrokenProcessPool:
        raise EvaluationError("the process of a branch died before it handed on its sum") from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # the aggregator can go on while processes end


def partial_sum(manifest: bytes, material: bytes, inbox: Inbox, signatures: bytes) -> bytes:
    """Run one branch in this process, over all that its inbox holds, and return its `Branch.partial`.

    `signatures` are the aggregator's, from `SessionSignatures.to_bytes`; empty where messages are not signed.
    """
    session = Manifest.from_bytes(manifest)
    branch = cast(Branch, registry.load(session.protocol).branch(session, material, inbox.parties))
    branch.signatures = SessionSignatures.from_bytes(signatures) if signatures else None
    for party, submission in inbox.read():
        try:
            branch.receive(party, submission)
        except MessageError:
            continue  # the branch has noted it
    return branch.partial()
