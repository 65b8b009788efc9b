"""Strategies played on the integers in the slots, for very many sessions at once, at primes of any size.

One prime at a time: a session with several is harder to deceive, as every one of them must agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from fhe_auc.keystream import KeyStream
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc_benchmarks.attacks.exact_auc import guessing
from fhe_auc_benchmarks.attacks.exact_auc.strategies import STRATEGIES, Ring, View
from fhe_auc_benchmarks.attacks.outcome import HARMLESS, PASSED, Outcome
from fhe_auc_protocols.exact_auc.authenticator import Pads, Secrets, submission
from fhe_auc_protocols.exact_auc.packing import Entries, ExactPacking
from fhe_auc_protocols.exact_auc.result_check import authentic

GUESS = "guess-point"
"""See every plaintext, and choose the result that passes for the most values of α (`guessing`)."""

_CHUNK = 20_000
_PARTIES, _BINS, _ROWS = 3, 4, 12


class SimulatedSessions:
    """So many independent sessions of the same parties with the same rows, for one prime and a packing of one pair.

    Counts are those of each party, whose draws come from the stream; `left` and `right` have each party's slots, shape
    (number, slots).
    """

    def __init__(
        self, stream: KeyStream, packing: ExactPacking, prime: int, counts: Sequence[Entries], number: int
    ) -> None:
        self.secrets = Secrets.draw(stream, packing, prime, number)
        pads = [Pads.draw(stream, packing, prime, number) for _ in counts]
        sides = [
            submission(packing, self.secrets, index, (pads[index], pads[(index + 1) % len(pads)]), each, stream)
            for index, each in enumerate(counts)
        ]
        self.left = [left[:, 0] for left, _ in sides]
        self.right = [right[:, 0] for _, right in sides]


def run(name: str, prime: int, trials: int, seed: int, *, ties: bool = True) -> Outcome:
    """Play one of `STRATEGIES`, or `GUESS`, in so many sessions, with or without ties, and count what passes.

    All follows from the seed. `GUESS` needs sessions without ties. The prime t may be of any size from the number of
    rows on. "passed" are results that the check accepts and whose AUC or resolution, modulo the prime, is wrong, or
    undefined where it should not be.
    """
    used = ExactPacking.fitting(8192, _BINS, ties=ties, authenticated=True).used
    packing = ExactPacking(used, _BINS, 1, ties, True)
    generator = np.random.default_rng([seed, prime])
    verdicts = Counter({PASSED: 0, HARMLESS: 0, "authenticator": 0})
    changed = 0
    for start in range(0, trials, _CHUNK):
        number = min(_CHUNK, trials - start)
        stream = KeyStream(generator.bytes(32))
        counts = [_counts(packing, generator) for _ in range(_PARTIES)]
        now, before = (SimulatedSessions(stream, packing, prime, counts, number) for _ in range(2))
        ring = Ring(packing, prime)
        view = View(ring, now.left, now.right, (before.left, before.right), generator)
        honest = packing.totals(view.product(), prime)
        if name == GUESS:
            found = guessing.forged(honest, prime, generator)
        else:
            found = packing.totals(STRATEGIES[name].play(view), prime)
        accepted = authentic(now.secrets, found)
        wrong = ~_same_ratios(found, honest, prime)
        verdicts[PASSED] += int((accepted & wrong).sum())
        verdicts[HARMLESS] += int((accepted & ~wrong).sum())
        verdicts["authenticator"] += int((~accepted).sum())
        changed += int((found != honest).any(axis=(-1, -2)).sum())
    return Outcome.counted(verdicts, changed=changed)


def _counts(packing: ExactPacking, generator: np.random.Generator) -> Entries:
    positives, negatives = generator.integers(1, _ROWS, (2, packing.bins))
    above = positives[::-1].cumsum()[::-1]
    return packing.place(2 * above - positives, positives, negatives)


def _same_ratios(found: Residues, honest: Residues, prime: int) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Tell where num/den and tie/den of `found` are the honest ones, shape (…).

    Zeros alone are no ratio: a party would read off them that the AUC is undefined.
    """
    mine, true = found[..., 0, :], honest[..., 0, :]
    cross = modular.multiply(mine, true[..., -1:], prime) == modular.multiply(true, mine[..., -1:], prime)
    return np.asarray(cross.all(axis=-1) & (mine.any(axis=-1) == true.any(axis=-1)))
