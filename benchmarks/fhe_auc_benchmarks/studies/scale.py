"""From what one submission costs to a million parties. Prints the table of docs/guide/scale.md.

    OMP_NUM_THREADS=1 python -m fhe_auc_benchmarks.studies.scale

For each number of parties: the parameters that the planner takes for so many, and what an aggregator's process spends
on one submission under them, measured on 200 messages with all checks. The rest is multiplication.
"""

from __future__ import annotations

import statistics
import time

import msgspec

from fhe_auc import ckks
from fhe_auc.protocol import Request, Session
from fhe_auc_benchmarks.runtime.contender import renamed
from fhe_auc_benchmarks.runtime.problem import Problem
from fhe_auc_keys.session_keys import new_session_keys
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from fhe_auc_protocols.blinded_auc.planner import plan
from fhe_auc_protocols.blinded_auc.semi_honest import SemiHonest

PARTIES = (10**3, 10**4, 10**5, 10**6)
ROWS_PER_PARTY = 100
THRESHOLDS = 1000
MESSAGES, DISTINCT, RUNS = 200, 20, 5
CORES = 64
LINK = 10e9 / 8  # bytes a second


def session_for(parties: int, backend: ckks.BackendName) -> Session:
    """A session of 200 parties with the parameters for so many."""
    plugin, problem = SemiHonest(), Problem(MESSAGES, THRESHOLDS)
    names = tuple(f"site {party}" for party in range(MESSAGES))
    request = Request(
        parties=names,
        thresholds=problem.points,
        max_rows=max(10**6, ROWS_PER_PARTY * parties),
        min_rows=parties,
    )
    chosen = plan(msgspec.structs.replace(plugin.workload(request), parties=parties), backend)
    keys = new_session_keys(chosen.parameters)
    return Session(plugin.manifest(request, context=keys.fingerprint, plan=chosen), keys.aggregator, keys.party)


def measure(session: Session) -> tuple[int, float, float]:
    """Bytes of an upload, CPU seconds to take one in, CPU seconds of the circuit."""
    plugin, problem = SemiHonest(), Problem(MESSAGES, THRESHOLDS)
    opening = plugin.aggregator(session.manifest, session.aggregator_material).start()
    made = [
        plugin.party(session.manifest, session.party_material, problem.data(party)).respond(opening)
        for party in range(DISTINCT)
    ]
    sent = [(name, renamed(made[at % DISTINCT], name)) for at, name in enumerate(session.manifest.parties)]
    each, circuit = [], []
    for _ in range(RUNS):
        aggregator = plugin.aggregator(session.manifest, session.aggregator_material)
        aggregator.start()
        started = time.process_time()
        for name, message in sent:
            aggregator.receive(name, message)
        received = time.process_time()
        aggregator.finish_round()
        each.append((received - started) / MESSAGES)
        circuit.append(time.process_time() - received)
    return len(sent[0][1]), statistics.median(each), statistics.median(circuit)


def main() -> None:
    print(
        f"| backend | parties | ring | upload | all uploads | CPU each | CPU in all | {CORES} cores | 10 Gbit/s link "
        "| circuit, once |\n" + "| --- " * 10 + "|"
    )
    for backend in ckks.available_backends():
        for parties in PARTIES:
            session = session_for(parties, backend)
            upload, each, circuit = measure(session)
            ring = session.manifest.decoded_plan(AucPlan).parameters.ring_dimension
            print(
                f"| {backend} | {parties:,} | {ring} | {upload / 1e3:.0f} kB | {parties * upload / 1e9:,.1f} GB "
                f"| {each * 1e3:.2f} ms | {parties * each:,.1f} s | {parties * each / CORES:,.1f} s "
                f"| {parties * upload / LINK:,.1f} s | {circuit * 1e3:.0f} ms |",
                flush=True,
            )


if __name__ == "__main__":
    main()
