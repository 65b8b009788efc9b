"""Three-party computation of the same AUC, on MPyC: counts in Shamir shares, for three servers on this machine.

Each party splits its counts, modulo 2^61 − 1, into three shares of which any two tell them. Servers add up what they
get, multiply once, and open rows of each label and the numerator: what `exact` releases, without an interval. No two
servers may collude, and all must compute as they should. Shares travel unsigned and unchecked, which favours it.
"""

from __future__ import annotations

import secrets
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc_benchmarks.runtime.contender import Clock, Contender, Played
from fhe_auc_benchmarks.runtime.problem import BenchmarkProblem
from fhe_auc_benchmarks.stopwatch import Stopwatch

SERVERS = 3
_PRIME = 2**61 - 1
_RELEASED = 3  # numbers


class SecretShares(Contender):
    """Sums of secret-shared counts, and one product of them."""

    name = "secret shares, 3 servers (MPyC)"
    tolerance = 1e-12

    def __init__(self, problem: BenchmarkProblem) -> None:
        self.problem = problem
        self._sent = [self._shares(party) for party in range(problem.parties)]

    def play(self) -> Played:
        """Split one party's counts, and let servers do the rest; the aggregator's time is that of all three."""
        clock = Clock()
        with clock.on("party"):
            self._sent[0] = self._shares(0)
        with tempfile.TemporaryDirectory() as folder:
            for server in range(SERVERS):
                np.save(Path(folder) / f"{server}.npy", np.stack([sent[server] for sent in self._sent]))
            answers = _served(Path(folder))
        with clock.on("party"):
            numerator, positives, negatives = answers[0].released
            auc = numerator / (2 * positives * negatives)
        clock.cpu["aggregator"] = sum(answer.cpu for answer in answers)
        clock.wall["aggregator"] = max(answer.wall for answer in answers)
        return Played(auc, *clock.read(), self._sent[0].nbytes, 8 * _RELEASED)

    def _shares(self, party: int) -> NDArray[np.uint64]:
        """Return a row of shares for each server, at 1, 2, 3 of a random line through each count."""
        counts = self.problem.counts(party)
        values = np.concatenate([counts.tp, counts.fp]).astype(np.uint64)
        slope = np.frombuffer(secrets.token_bytes(values.nbytes), np.uint64) % _PRIME
        return np.stack([(values + np.uint64(at) * slope) % _PRIME for at in range(1, SERVERS + 1)])


class _ShareSums(NamedTuple):
    """What a server prints: numerator, rows of each label; seconds that it took."""

    released: list[int]
    cpu: float
    wall: float


def _served(folder: Path) -> list[_ShareSums]:
    """Run the servers on their shares in the folder; return what each has printed."""
    with ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(SERVERS)]
        addresses = [f"-P127.0.0.1:{each.getsockname()[1]}" for each in taken]
    with ExitStack() as stack:
        command = [sys.executable, "-m", __name__, *addresses, "--no-log"]
        calls = ([*command, f"-I{server}", str(folder)] for server in range(SERVERS))
        started = (subprocess.Popen(call, stdout=subprocess.PIPE) for call in calls)  # noqa: S603 - ourselves
        running = [stack.enter_context(each) for each in started]
        return [msgspec.json.decode(each.communicate()[0], type=_ShareSums) for each in running]


async def _serve(folder: Path) -> None:
    """Play one server: add up, multiply, open; print the numbers, and what it took once all were connected."""
    from mpyc.runtime import mpc

    sent = np.load(folder / f"{mpc.pid}.npy")
    await mpc.start()
    await _released(mpc, sent[:1])  # a warm-up, as all have that are measured
    with Stopwatch() as watch:
        released = await _released(mpc, sent)
    await mpc.shutdown()
    print(msgspec.json.encode(_ShareSums(released, watch.cpu, watch.wall)).decode())


async def _released(mpc: Any, sent: NDArray[np.uint64]) -> list[int]:
    """Add up what parties have sent; return numerator and rows of each label, opened with the other servers."""
    total = np.zeros(1, np.uint64)
    for shares in sent:
        total = (total + shares) % _PRIME
    number = mpc.SecFld(modulus=_PRIME)  # as an array: MPyC takes ten times as long for as many single numbers
    parts = (*np.split(total, 2), np.zeros(1, np.uint64))
    tp, fp, none = (number.array(number.field.array(part.astype(object))) for part in parts)
    heights = tp + mpc.np_concatenate((tp[1:], none))
    widths = fp - mpc.np_concatenate((fp[1:], none))
    return [int(each) for each in await mpc.output([mpc.np_matmul(heights, widths), tp[0], fp[0]])]


if __name__ == "__main__":
    import asyncio

    asyncio.run(_serve(Path(sys.argv[-1])))
