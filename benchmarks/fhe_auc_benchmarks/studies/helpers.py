"""What a session with helpers costs each role, messages signed. Prints the table of docs/security/helpers.md.

OMP_NUM_THREADS=1 python -m fhe_auc_benchmarks.studies.helpers [--parties 1000] [--thresholds 100] [--helpers 1 2 3]

What helpers and aggregator spend once is that of a session of two parties; each party's part is the rest.
"""

from __future__ import annotations

import argparse

from fhe_auc_benchmarks.runtime.contender import OurProtocol
from fhe_auc_benchmarks.runtime.problem import Problem

PROTOCOLS = "exact", "verified"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parties", type=int, default=1000)
    parser.add_argument("--thresholds", type=int, default=100)
    parser.add_argument("--helpers", type=int, nargs="+", default=[1, 2, 3])
    arguments = parser.parse_args()

    print("| helpers | protocol | upload | download | party | a helper, for each | and once | aggregator, for each |")
    print("|---|---|---|---|---|---|---|---|")
    sizes = 2, arguments.parties
    problems = [Problem(size, arguments.thresholds) for size in sizes]
    OurProtocol(problems[0], PROTOCOLS[0], keys="helper").play()  # libraries load
    for helpers in arguments.helpers:
        for protocol in PROTOCOLS:
            for interval in (None, 0.95) if helpers == 1 else (None,):
                few, many = (
                    OurProtocol(problem, protocol, keys="helper", helpers=helpers, interval=interval).play()
                    for problem in problems
                )
                spent = {
                    role: 1e3 * (many.cpu[role] - few.cpu[role]) / (sizes[1] - sizes[0])
                    for role in ("helper", "aggregator")
                }
                print(
                    f"| {helpers} | {protocol}{', DeLong' if interval else ''} | {many.upload_bytes:,} B "
                    f"| {many.download_bytes:,} B | {1e3 * many.cpu['party']:.2f} ms | {spent['helper']:.2f} ms "
                    f"| {few.cpu['helper']:.2f} s | {spent['aggregator']:.2f} ms |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
