"""What the keys of `exact` and `verified` cost, what the aggregator is given, and how well noise is hidden.

    OMP_NUM_THREADS=1 python -m fhe_auc_benchmarks.studies.exact_costs [--runs 5] [--parties 100]

Keys: CPU milliseconds (the least of all runs) for keys, seeds and opening. Bundle: bytes of the aggregator's, sealed,
with all certificates; inside, the evaluation keys, of which there are none, and the opening's ciphertexts. Submitting:
what one party's padded sketch has on the wire, without its envelope. λ: bits by which flooding hides noise. What a
session costs after that: `fhe-auc benchmark`.
"""

from __future__ import annotations

import argparse
import math
from itertools import product

from fhe_auc import ckks, registry, thresholds
from fhe_auc.bfv import load_public
from fhe_auc.protocol import Request, Session
from fhe_auc_benchmarks.stopwatch import Stopwatch
from fhe_auc_keys.local_consortium import Consortium
from fhe_auc_keys.session_keys import public_context
from fhe_auc_protocols.exact_auc.plan import ExactPlan

PROTOCOLS = ("verified", "exact")
GRIDS = ("hybrid:100", "hybrid:1000", "hybrid:4000")


def prepared(request: Request, protocol: str, runs: int) -> tuple[Session, float]:
    """Return a session and the least CPU seconds to make one, once the library's context is there."""
    plugin, least = registry.load(protocol), math.inf
    session = plugin.prepare(request)
    for _ in range(runs):
        with Stopwatch() as watch:
            session = plugin.prepare(request)
        least = min(least, watch.cpu)
    return session, least


def evaluation_keys(session: Session) -> int:
    """Return the bytes of relinearisation and rotation keys that the aggregator has."""
    stored = load_public(public_context(session.aggregator_material)[0])._stored
    return sum(
        len(getattr(stored, name)) for name in stored.__struct_fields__ if name not in ("parameters", "public_key")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--parties", type=int, default=100)
    arguments = parser.parse_args()
    names = tuple(f"site {party}" for party in range(arguments.parties))
    consortium = Consortium(names)
    print("| protocol | backend | thresholds | keys | bundle | evaluation keys | opening | submitting | λ |")
    print("| --- " * 9 + "|")
    for protocol, backend, grid in product(PROTOCOLS, ckks.available_backends(), GRIDS):
        request = Request(parties=names, thresholds=thresholds.parse(grid), backend=backend)
        session, seconds = prepared(request, protocol, arguments.runs)
        plan = session.manifest.decoded_plan(ExactPlan)
        bundle = len(consortium.seal(session).aggregator)
        print(
            f"| {protocol} | {backend} | {grid} | {1e3 * seconds:.0f} ms | {bundle:,} | {evaluation_keys(session):,} "
            f"| {plan.layout.ciphertexts * plan.primes} | {plan.submission_bytes:,} | {plan.flooding_margin:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
