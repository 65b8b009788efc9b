#!/usr/bin/env bash
# numpy 2.4.6: default_rng takes a seed as words of 32 bits, and fills them up with zeros to four. The streams of 7,
# [7], [7, 0] and [7, 0, 0, 0] are one; so are those of 2**32 + 7 and [7, 1].
#
# Seen: the noise of seed 7 and that of client 0, seeded by [7, 0], are equal number by number. A fifth word (spawn adds
# one) makes another stream.
# Why it matters: simulations of federated noise seed each client by [seed, client], and draw data by the seed. The
# first client's noise is then the data's, and variances are wrong. SeedSequence(seed).spawn(clients) is right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check numpy==2.4.6
"$folder/venv/bin/python" - <<'PY'
import numpy as np


def noise(seed):
    return np.random.default_rng(seed).laplace(size=1000)


server, clients = noise(7), [noise([7, client]) for client in range(3)]
apart = [float(np.abs(server - each).max().round(2)) for each in clients]
spawned = [noise(child) for child in np.random.SeedSequence(7).spawn(3)]
print(f"largest difference between the server's noise and that of clients 0, 1, 2: {apart}")
assert apart[0] == 0 and min(apart[1:]) > 1
assert all(np.array_equal(server, noise(seed)) for seed in ([7], [7, 0, 0], [7, 0, 0, 0]))
assert np.array_equal(noise(2**32 + 7), clients[1]) and not np.array_equal(server, noise([7, 0, 0, 0, 0]))
assert not any(np.array_equal(server, each) for each in spawned)
PY
