#!/usr/bin/env bash
# secret_shares.sh [SITES] [BINS]: the AUC of pooled counts by three servers with secret shares, on MPyC 0.11.
#
# Each site splits its counts, modulo 2^61 - 1, into three of Shamir's shares, of which any two tell them. Servers add up
# what they get, multiply once, and open rows of each label and the numerator: what `exact` releases, without an interval.
# No two servers may collude, and all must compute as they should. Shares travel unsigned and unchecked, which favours it.
# It checks the AUC, and prints the least CPU time of three runs, of a site and of the three servers together.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check mpyc==0.11 numpy==2.4.6 gmpy2==2.3.2
cat > "$folder/servers.py" <<'PY'
import secrets
import sys
import time

import numpy as np
from mpyc.runtime import mpc

sites, bins = map(int, sys.argv[1:3])
prime, servers = 2**61 - 1, 3
field = mpc.SecFld(modulus=prime)  # as an array: MPyC takes ten times as long for as many single numbers


def counts_of(site):
    """Rows of each label at or above each bin's lower edge: positives, then negatives."""
    random = np.random.default_rng(site)
    positive = random.random(100) < 0.2
    binned = (np.clip(random.normal(0.4 + 0.2 * positive, 0.2), 0, 1 - 1e-9) * bins).astype(int)
    counts = [np.bincount(binned[rows], minlength=bins) for rows in (positive, ~positive)]
    return np.concatenate([each[::-1].cumsum()[::-1] for each in counts]).astype(np.uint64)


def shares_of(counts):
    """A row for each server: a random line through each count, at 1, 2 and 3."""
    slope = np.frombuffer(secrets.token_bytes(counts.nbytes), np.uint64) % prime
    return np.stack([(counts + np.uint64(at) * slope) % prime for at in range(1, servers + 1)])


async def released(sent):
    """Add up what sites have sent to this server; open the numerator and rows of each label with the others."""
    total = np.zeros(2 * bins, np.uint64)
    for shares in sent:
        total = (total + shares) % prime
    parts = *np.split(total, 2), np.zeros(1, np.uint64)
    tp, fp, none = (field.array(field.field.array(part.astype(object))) for part in parts)
    heights = tp + mpc.np_concatenate((tp[1:], none))
    widths = fp - mpc.np_concatenate((fp[1:], none))
    return [int(each) for each in await mpc.output([mpc.np_matmul(heights, widths), tp[0], fp[0]])]


async def main():
    await mpc.start()
    counts = [counts_of(site) for site in range(sites)]
    took = []
    for _ in range(4):  # the first warms up
        started = time.process_time()
        shares_of(counts[0])
        of_site = time.process_time() - started
        # Server 0 stands for all sites, outside the clocks: it splits their counts, and hands out the shares.
        split = np.stack([shares_of(each) for each in counts], axis=1) if mpc.pid == 0 else None
        sent = (await mpc.transfer(split, senders=[0]))[0][mpc.pid]
        started = time.process_time()
        numerator, positives, negatives = await released(sent)
        took.append((of_site, sum(await mpc.transfer(time.process_time() - started))))
    if mpc.pid == 0:
        tp, fp = np.split(sum(counts).astype(object), 2)
        right = np.dot(tp + np.append(tp[1:], 0), fp - np.append(fp[1:], 0))
        assert (numerator, positives, negatives) == (right, tp[0], fp[0])
        site, server = (1000 * min(each[which] for each in took[1:]) for which in (0, 1))
        print(f"{sites} sites, {bins:,} bins: AUC {numerator / (2 * positives * negatives):.6f}, as in the clear")
        print(f"a site {site:.2g} ms, sends {split[0, 0].nbytes * servers / 1000:.3g} kB, gets 0.024; servers {server:.2g} ms")
    await mpc.shutdown()


mpc.run(main())
PY
"$folder/venv/bin/python" "$folder/servers.py" "${1:-100}" "${2:-1000}" -M3 --no-log
