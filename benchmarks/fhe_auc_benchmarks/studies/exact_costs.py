"""What exact sessions cost below the protocol: BFV for a million pooled rows, three primes, flooding included.

    OMP_NUM_THREADS=1 python -m fhe_auc_benchmarks.studies.exact_costs [--runs 9] [--parties 2 1000]

Sizes of messages; CPU milliseconds (the least of all runs) of each step of party and aggregator; and how much of the
modulus noise and flooding take, measured with the secret key beside what the planner derives.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from fhe_auc import bfv, ckks
from fhe_auc.bfv.ciphertext_noise import noise_bound, scaled_noise
from fhe_auc.bfv.parameters import CHAINS, primes_above
from fhe_auc.rlwe.polynomials import Sum

PRIMES = 3
CIPHERTEXTS = 2 * PRIMES
SUBMISSIONS = 20


class Clock:
    """Least CPU milliseconds of each step, added up over the calls of `step`."""

    def __init__(self, runs: int) -> None:
        self.runs = runs
        self.spent: dict[str, float] = {}

    def step(self, name: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call as often as there are runs; return what the last call returned."""
        least = math.inf
        for _ in range(self.runs):
            started = time.process_time()
            made = call(*arguments)
            least = min(least, time.process_time() - started)
        self.spent[name] = self.spent.get(name, 0.0) + 1000 * least
        return made


def residues(generator: np.random.Generator, t: int) -> bfv.Residues:
    return generator.integers(0, t, 8192, dtype=np.uint64)


def parameters_of(backend: ckks.BackendName) -> bfv.BfvParameters:
    (chain,) = CHAINS[backend]
    moduli = primes_above(2**41, PRIMES, chain.ring_dimension)
    return bfv.BfvParameters(backend, chain.ring_dimension, chain.modulus_bits, chain.special_bits, moduli)


def costs(pair: bfv.KeyPair, runs: int) -> dict[str, float]:
    """CPU milliseconds by step, for all primes."""
    generator = np.random.default_rng(1)
    clock = Clock(runs)
    public, secret, step = pair.public, pair.secret, clock.step
    for prime, t in enumerate(public.parameters.plain_moduli):
        values = residues(generator, t)
        factors = []
        for _ in range(2):
            data = step("party: encrypt", secret.encrypt, values, prime)
            words = step("ingest: read", public.read_submission, data, prime)
            step("ingest: add", Sum(public.ciphertext_shape).add, words)
            total = Sum(public.ciphertext_shape)
            for _ in range(SUBMISSIONS):
                total.add(words)
            factors.append(step("circuit: load sums", public.ciphertext, total.words, prime))
        made = step("circuit: multiply", public.multiply, *factors)
        made = step("circuit: times r", public.multiply_values, made, np.full(8192, t // 2 - 1))
        made = step("circuit: add zero-sum vector", public.add_values, made, values)
        made = step("circuit: flood", public.flood, made)
        result = step("circuit: dump", public.dump_result, made)
        step("party: decrypt", secret.decrypt, result, prime)
    return clock.spent


def noise(pair: bfv.KeyPair, parties: int) -> tuple[float, float, float]:
    """log2 of the largest coefficient: of the sum's noise, of r·noise, and of what is left after flooding."""
    generator = np.random.default_rng(2)
    t = pair.public.parameters.plain_moduli[0]
    sums = []
    for _ in range(2):
        total = Sum(pair.public.ciphertext_shape)
        for _ in range(parties):
            total.add(pair.public.read_submission(pair.secret.encrypt(residues(generator, t), 0), 0))
        sums.append(total.words)
    product = pair.public.multiply(*(pair.public.ciphertext(words, 0) for words in sums))
    blinded = pair.public.multiply_values(product, np.full(8192, t // 2))
    found = [sums[0], *(each.words for each in (blinded, pair.public.flood(blinded)))]
    first, second, third = (
        math.log2(max(map(abs, scaled_noise(pair.secret, words, 0)))) - math.log2(t) for words in found
    )
    return first, second, third


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--parties", type=int, nargs="+", default=[2, 100])
    arguments = parser.parse_args()
    for backend in ckks.available_backends():
        parameters = parameters_of(backend)
        started = time.process_time()
        pair = bfv.generate(parameters)
        keys = 1000 * (time.process_time() - started)
        upload = CIPHERTEXTS * len(pair.secret.encrypt(np.zeros(8192, int), 0))
        download = PRIMES * len(pair.public.dump_result(pair.public.encrypt(np.zeros(8192, int), 0)))
        print(f"\n{backend}: log2 Q = {parameters.log2_modulus}, special prime of {parameters.special_bits} bits")
        print(f"  upload {upload / 1e6:.2f} MB, result {download / 1e6:.2f} MB", end=", ")
        print(f"aggregator's keys {len(pair.public.to_bytes()) / 1e6:.2f} MB, first made in {keys:.0f} ms")
        steps = costs(pair, arguments.runs)
        for name, spent in steps.items():
            print(f"  {name:32}{spent:8.1f} ms")
        for role in ("party", "ingest", "circuit"):
            print(f"  {role} in all{sum(spent for name, spent in steps.items() if name.startswith(role)):10.1f} ms")
        for parties in arguments.parties:
            fresh, blinded, flooded = noise(pair, parties)
            bound = math.log2(noise_bound(parameters, parties))
            hidden = parameters.flooding_bits - math.log2(parameters.ring_dimension)
            print(f"  {parties} parties: noise of a sum 2^{fresh:.1f}, r·noise 2^{blinded:.1f}", end=" ")
            print(
                f"(derived bound 2^{bound:.1f}), flooded 2^{flooded:.2f} of 2^{parameters.capacity_bits:.2f};", end=" "
            )
            print(f"hidden by {hidden - blinded:.1f} bits (at least {hidden - bound:.1f})", flush=True)


if __name__ == "__main__":
    main()
