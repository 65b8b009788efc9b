"""What joint and sealed keys cost, and what they do to the AUC. Prints the tables of docs/security/joint-keys.md.

OMP_NUM_THREADS=1 python -m fhe_auc_benchmarks.studies.joint_keys [--parties 3 10 30] [--splits 3]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from fhe_auc import api, datasets, registry, thresholds
from fhe_auc.ckks.parameters import JOINT_BACKEND
from fhe_auc.counts import PartyData, count
from fhe_auc.protocol import Request, Session
from fhe_auc.rounds import Party
from fhe_auc.trapezoid import trapezoid
from fhe_auc_keys import local_consortium
from fhe_auc_protocols.blinded_auc.semi_honest import SemiHonest

SEALED_PARTIES = 100


def pooled(name: str) -> tuple[np.ndarray, np.ndarray]:
    sites = datasets.load(name)
    return np.concatenate([site.y_true for site in sites]), np.concatenate([site.y_score for site in sites])


def split(name: str, parties: int, rows: int | None, seed: int) -> list[PartyData]:
    """Some rows of a bundled data set, dealt out to so many parties; both labels are among them."""
    y_true, y_score = pooled(name)
    order = np.random.default_rng(seed).permutation(len(y_true))[:rows]
    parts = np.array_split(order, parties)
    return [PartyData.from_arrays(f"site {i}", y_true[part], y_score[part]) for i, part in enumerate(parts)]


def request(parties: list[PartyData], grid: np.ndarray, keys: str) -> Request:
    names = tuple(party.name for party in parties)
    return Request(parties=names, thresholds=grid, backend=JOINT_BACKEND, keys=keys)


class Clock:
    """CPU seconds of this thread, added up by what they were spent on."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        started = time.process_time()
        yield
        self.seconds[what] = self.seconds.get(what, 0.0) + time.process_time() - started


def joint_costs(protocol: str, spec: str, parties: int) -> dict[str, float]:
    """Run one joint session; return CPU seconds and bytes of one party (the last), and of the aggregator."""
    sites = split("credit-default", parties, None, seed=0)
    plugin = registry.load(protocol)
    session = plugin.prepare(request(sites, thresholds.parse(spec), "joint"))
    delivery = plugin.local_delivery(session)
    clock = Clock()
    aggregator = plugin.aggregator(session.manifest, delivery.aggregator)
    others = [plugin.party(session.manifest, delivery.parties[site.name], site) for site in sites[:-1]]
    with clock.on("set-up"):
        last = plugin.party(session.manifest, delivery.parties[sites[-1].name], sites[-1])
    message: bytes | None = aggregator.start()
    while message is not None:
        with clock.on("set-up" if aggregator.round <= 2 else "decrypt"):
            answers: dict[Party, bytes] = {last: last.respond(message)}
        answers.update({other: other.respond(message) for other in others})
        with clock.on("aggregator"):
            for party, answer in answers.items():
                aggregator.receive(party.name, answer)
            message = aggregator.finish_round()
    evaluation = last.result()
    return {
        **clock.seconds,
        "keys sent": evaluation.key_bytes_per_party,
        "sent": evaluation.upload_bytes_per_party,
        "received": evaluation.download_bytes_per_party,
        "rounds": evaluation.rounds,
    }


def joint_error(parties: int, rows: int | None, splits: int) -> tuple[float, float]:
    """Worst difference of a joint AUC to the sealed one, and to the exact one, over data sets and random splits."""
    worst_sealed = worst_exact = 0.0
    for name in datasets.NAMES:
        for seed in range(splits):
            sites = split(name, parties, rows, seed)
            for spec in ("uniform:100", "hybrid:1000"):
                grid = thresholds.parse(spec)
                found = {
                    keys: api.run(SemiHonest(), request(sites, grid, keys), sites, lambda *_: None)
                    for keys in ("joint", "sealed")
                }
                first, *rest = [count(site, grid) for site in sites]
                exact = trapezoid(sum(rest, start=first)).auc
                worst_sealed = max(worst_sealed, abs(found["joint"].auc - found["sealed"].auc))
                worst_exact = max(worst_exact, abs(found["joint"].auc - exact))
    return worst_sealed, worst_exact


def sealing_seconds() -> tuple[float, float]:
    """CPU seconds for sealing to, and opening at, so many parties, and of which certificates take."""
    sites = split("credit-default", SEALED_PARTIES, None, seed=0)
    session: Session = SemiHonest().prepare(request(sites, thresholds.uniform(100), "sealed"))
    consortium = timed(lambda: local_consortium.Consortium(session.manifest.parties))
    return timed(lambda: local_consortium.sealed(session)), consortium


def timed(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parties", type=int, nargs="+", default=[3, 10, 30])
    parser.add_argument("--splits", type=int, default=3)
    arguments = parser.parse_args()

    for protocol, spec in (("verified", "hybrid:4000"), ("semi-honest", "uniform:100")):
        print(f"\n{protocol}, {spec}\n")
        print("| parties | set-up, a party | decrypt and recover | aggregator | keys sent | sent | received | rounds |")
        print("|---|---|---|---|---|---|---|---|")
        for parties in arguments.parties:
            found = joint_costs(protocol, spec, parties)
            size = " | ".join(f"{found[what] / 1e6:.1f} MB" for what in ("keys sent", "sent", "received"))
            spent = " | ".join(f"{found[what]:.2f} s" for what in ("set-up", "decrypt", "aggregator"))
            print(f"| {parties} | {spent} | {size} | {found['rounds']} |", flush=True)

    whole, certificates = sealing_seconds()
    print(
        f"\nSealed keys, {SEALED_PARTIES} parties, all of them: {whole:.2f} s, of which {certificates:.2f} s to certify"
    )

    print("\n| parties | pooled rows | joint against sealed | joint against exact |")
    print("|---|---|---|---|")
    for parties in arguments.parties:
        for rows in (None, 100):
            sealed, exact = joint_error(parties, rows, arguments.splits)
            print(f"| {parties} | {rows or 'all'} | {sealed:.1e} | {exact:.1e} |", flush=True)


if __name__ == "__main__":
    main()
