"""What a session with helpers costs each role, messages signed. Prints the table of docs/security/helpers.md.

OMP_NUM_THREADS=1 python -m fhe_auc_benchmarks.studies.helpers [--parties 1000] [--thresholds 100] [--helpers 1 2 3]
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from fhe_auc import registry, thresholds
from fhe_auc.counts import PartyData
from fhe_auc.party_names import AGGREGATOR
from fhe_auc.protocol import Request
from fhe_auc_keys.identity import Identity
from fhe_auc_keys.session_signatures import SessionSignatures

ROWS = 50  # of each party
PROTOCOLS = "exact", "verified"


def costs(protocol: str, helpers: int, parties: int, points: int, *, interval: bool) -> dict[str, float]:
    """Play one session; return CPU seconds and bytes of a party, and CPU seconds of the others.

    A party's upload is its submission, its download the sums. What the aggregator spends on the confirmations of the
    last round is apart ("confirmed"). Subtract a session of two parties to have what the others spend on each party.
    """
    drawn = np.random.default_rng(0)
    sites = [
        PartyData.from_arrays(f"site {number}", drawn.integers(0, 2, ROWS), drawn.random(ROWS))
        for number in range(parties)
    ]
    plugin = registry.load(protocol)
    names = tuple(site.name for site in sites)
    level = 0.95 if interval else None
    grid = thresholds.uniform(points)
    session = plugin.prepare(
        Request(parties=names, thresholds=grid, keys="helper", helpers=helpers, interval=level, min_parties=2)
    )
    manifest, delivery = session.manifest, plugin.local_delivery(session)
    aggregator = plugin.aggregator(manifest, delivery.aggregator)
    roles: dict[str, Any] = {site.name: plugin.party(manifest, delivery.parties[site.name], site) for site in sites}
    helping = [plugin.helper(manifest, material) for material in delivery.helpers]
    roles |= {role.name: role for role in helping}
    identities = {name: Identity.create(f"role {number}") for number, name in enumerate((*roles, AGGREGATOR))}
    keys = {name: identity.signing_key for name, identity in identities.items()}
    for name, role in (*roles.items(), (AGGREGATOR, aggregator)):
        role.signatures = SessionSignatures(manifest.digest, keys, identities[name])

    spent, sent = Counter[str](), Counter[str]()

    def timed(who: str, work: Callable[..., Any], *given: object) -> Any:
        started = time.process_time()
        found = work(*given)
        spent[who] += time.process_time() - started
        return found

    message = aggregator.start()
    while message is not None:
        for name in aggregator.asked:
            answer = timed("parties" if name in names else name, roles[name].respond, message)
            if name in names and aggregator.round == 1:
                sent["upload"] += len(answer)
            elif name in names:
                sent["download"] += len(message)
            timed(
                "confirmed" if aggregator.round == aggregator.rounds else "aggregator", aggregator.receive, name, answer
            )
        message = timed("aggregator", aggregator.finish_round)
    assert {roles[name].result().parties for name in names} == {parties}
    of_each = {what: total / parties for what, total in (*sent.items(), ("party", spent["parties"]))}
    return {**of_each, **spent, "helper": max(spent[role.name] for role in helping)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parties", type=int, default=1000)
    parser.add_argument("--thresholds", type=int, default=100)
    parser.add_argument("--helpers", type=int, nargs="+", default=[1, 2, 3])
    arguments = parser.parse_args()

    print("| helpers | protocol | upload | download | party | a helper, for each | and once | aggregator, for each |")
    print("|---|---|---|---|---|---|---|---|")
    costs(PROTOCOLS[0], 1, 2, arguments.thresholds, interval=False)  # libraries load
    for helpers in arguments.helpers:
        for protocol in PROTOCOLS:
            for interval in (False, True) if helpers == 1 else (False,):
                few, many = (
                    costs(protocol, helpers, parties, arguments.thresholds, interval=interval)
                    for parties in (2, arguments.parties)
                )
                more = arguments.parties - 2
                spent = {role: 1e3 * (many[role] - few[role]) / more for role in ("helper", "aggregator", "confirmed")}
                print(
                    f"| {helpers} | {protocol}{', DeLong' * interval} | {many['upload']:,.0f} B "
                    f"| {many['download']:,.0f} B | {1e3 * many['party']:.2f} ms | {spent['helper']:.2f} ms "
                    f"| {few['helper']:.2f} s | {spent['aggregator']:.2f} + {spent['confirmed']:.2f} ms |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
