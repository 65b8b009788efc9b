"""What a session costs that answers for several models and groups of rows, beside one that answers for one AUC.

    OMP_NUM_THREADS=1 python -m fhe_auc_benchmarks.studies.several [--backend openfhe] [--runs 3]

Of `verified`, with intervals, made-up rows at 10 sites. Up: the busiest party's messages. Result: its ciphertexts.
Aggregator, party: CPU seconds from the first submission to the result, and of one party from its rows to its reading;
the least of all runs. Keys, bundle: CPU seconds of the key holder, and bytes of the aggregator's sealed bundle.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from fhe_auc import ckks, registry, thresholds
from fhe_auc.analysis import PLAIN, Analysis, Variable
from fhe_auc.counts import PartyData
from fhe_auc.protocol import Request
from fhe_auc.rounds import conduct
from fhe_auc_benchmarks.stopwatch import Stopwatch
from fhe_auc_keys.local_consortium import Consortium
from fhe_auc_protocols.exact_auc.plan import ExactPlan

SITES = 10
ONE_PRIME, TWO_PRIMES = 24_575, 10**6  # pooled rows at most

SEX = Variable("sex", ("F", "M"))
AGE = Variable("age", ("18-34", "35-49", "50-64", "65-79", "80+"))

QUESTIONS = {
    "one AUC": PLAIN,
    "one model, 8 groups": Analysis(by=(SEX, AGE)),
    "two models": Analysis(models=("a", "b")),
    "two models, 8 groups": Analysis(models=("a", "b"), by=(SEX, AGE)),
    "two models, 8 groups, across": Analysis(models=("a", "b"), by=(SEX, AGE), cross_groups=True),
}
"""Groups with all rows."""

CASES = (
    ("one AUC", "hybrid:4000", ONE_PRIME),
    ("one model, 8 groups", "hybrid:200", ONE_PRIME),
    ("one AUC", "hybrid:1000", ONE_PRIME),
    ("one AUC", "hybrid:1000", TWO_PRIMES),
    ("one model, 8 groups", "hybrid:1000", ONE_PRIME),
    ("two models", "hybrid:1000", ONE_PRIME),
    ("two models, 8 groups", "hybrid:1000", ONE_PRIME),
    ("two models, 8 groups", "hybrid:1000", TWO_PRIMES),
    ("two models, 8 groups, across", "hybrid:1000", ONE_PRIME),
)


def rows(analysis: Analysis, random: np.random.Generator, number: int = 2000) -> list[PartyData]:
    """Return made-up rows of all sites."""
    found = []
    for site in range(SITES):
        labels = random.random(number) < 0.2
        scores = {model: 1 / (1 + np.exp(2 - labels - random.normal(size=number))) for model in analysis.models}
        groups = {each.name: random.choice(each.levels, number) for each in analysis.by}
        found.append(PartyData.from_columns(f"site {site}", labels, scores, groups, analysis))
    return found


def session(request: Request, parties: list[PartyData], consortium: Consortium) -> list[float]:
    """Play a session; return CPU seconds of aggregator, party and keys, bytes up, and those of the bundle."""
    plugin = registry.load("verified")
    with Stopwatch() as keys:
        made = plugin.prepare(request)
    bundle = len(consortium.seal(made).aggregator)
    delivery = plugin.local_delivery(made)
    aggregator = plugin.aggregator(made.manifest, delivery.aggregator)
    with Stopwatch() as own:
        roles = [plugin.party(made.manifest, delivery.parties[each.name], each) for each in parties]
    of_parties = own.cpu

    def exchange(message: bytes) -> list[tuple[str, bytes]]:
        nonlocal of_parties
        with Stopwatch() as watch:
            answers = [(role.name, role.respond(message)) for role in roles]
        of_parties += watch.cpu
        return answers

    with Stopwatch() as whole:
        conduct(aggregator, exchange)
    answering = of_parties - own.cpu
    with Stopwatch() as reading:
        results = [role.result() for role in roles]
    party = (of_parties + reading.cpu) / len(roles)
    return [whole.cpu - answering, party, keys.cpu, results[0].upload_bytes_per_party, bundle]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", choices=ckks.BACKENDS)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    backend = ckks.choose_backend(arguments.backend)
    consortium = Consortium(tuple(f"site {site}" for site in range(SITES)))
    print("| what | thresholds | most rows | up | result | aggregator | party | keys | bundle |")
    print("| --- " * 9 + "|")
    for what, grid, max_rows in CASES:
        analysis = QUESTIONS[what]
        parties = rows(analysis, np.random.default_rng(1))
        request = Request(
            parties=tuple(each.name for each in parties),
            thresholds=thresholds.parse(grid),
            backend=backend,
            max_rows=max_rows,
            interval=0.95,
            analysis=analysis,
        )
        plan = registry.load("verified").plan(request)
        assert isinstance(plan, ExactPlan)
        least = [math.inf] * 5
        for _ in range(arguments.runs):
            least = [min(pair) for pair in zip(least, session(request, parties, consortium), strict=True)]
        aggregator, party, keys, up, bundle = least
        print(
            f"| {what} | {grid} | {max_rows:,} | {up / 1000:.1f} kB | {plan.result_bytes / 1000:.0f} kB "
            f"| {1000 * aggregator:.0f} ms | {1000 * party:.1f} ms | {keys:.2f} s | {bundle / 1e6:.2f} MB |",
            flush=True,
        )


if __name__ == "__main__":
    main()
