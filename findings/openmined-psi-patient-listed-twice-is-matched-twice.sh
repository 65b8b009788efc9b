#!/usr/bin/env bash
# openmined-psi 2.0.6: how many patients two sites share depends on the data structure where one is listed twice. GCS,
# its default, counts a client's repeated entries each time, RAW once. A server's repeated entries count once with both.
#
# Seen: a client with a, b, c, a and a server with a, c, d share 2 by RAW, 3 by GCS. A client with a, b, c and a server
# with a, a, c, d: 2 by both. So it also decides which site asks.
# Why it matters: lists of visits have a patient more than once, and sites that share rows of patients believe to share
# more of them than there are. Entries have to be made unique before.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check openmined-psi==2.0.6
"$folder/venv/bin/python" - <<'PY'
import private_set_intersection.python as psi


def common(of_client, of_server, structure):
    client, server = psi.client.CreateWithNewKey(False), psi.server.CreateWithNewKey(False)
    setup = server.CreateSetupMessage(1e-12, len(of_client), of_server, structure)
    return client.GetIntersectionSize(setup, server.ProcessRequest(client.CreateRequest(of_client)))


kinds = psi.DataStructure.RAW, psi.DataStructure.GCS
twice = {each.name: common(list("abca"), list("acd"), each) for each in kinds}
other = {each.name: common(list("abc"), list("aacd"), each) for each in kinds}
print(f"twice at the client: {twice}, at the server: {other}")
assert twice == {"RAW": 2, "GCS": 3} and other == {"RAW": 2, "GCS": 2}
PY
