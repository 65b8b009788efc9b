#!/usr/bin/env bash
# flwr 1.42.0 with ray 2.55.1: a simulation plays several virtual nodes in one process, one after the other, and loads
# the ClientApp's module once. What its globals, or a cache of its functions, keep of one node the next one finds.
# Between machines each SuperNode starts processes of its own.
#
# Seen: five nodes, each of which reads its rows once into a global: all five answer with the rows of one.
# Why it matters: an evaluation "federated" in a simulation is of one site five times over, and no number looks odd;
# deployed, the same app is right. A test in simulation says nothing of what sites may know of each other.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "flwr[simulation]==1.42.0" ray==2.55.1
cat > "$folder/node_app.py" <<'PY'
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

client = ClientApp()
ROWS = []  # of this node, read once


@client.query("count")
def count(message, context):
    own = int(context.node_config["partition-id"])
    if not ROWS:
        ROWS.append(own)
    return Message(RecordDict({"told": ConfigRecord({"node": own, "rows of": ROWS[0]})}), reply_to=message)
PY
cat > "$folder/play.py" <<'PY'
import json
import time

from flwr.app import Message, RecordDict
from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation
from node_app import client

server = ServerApp()


@server.main()
def main(grid, context):
    while len(nodes := list(grid.get_node_ids())) < 5:
        time.sleep(0.1)
    replies = grid.send_and_receive([Message(RecordDict({}), node, "query.count") for node in nodes])
    told = (reply.content["told"] for reply in replies)
    with open("told.json", "w") as file:
        json.dump(sorted((each["node"], each["rows of"]) for each in told), file)


resources = {"client_resources": {"num_cpus": 1}, "init_args": {"num_cpus": 1}}
run_simulation(server_app=server, client_app=client, num_supernodes=5, backend_config=resources)
PY
cd "$folder"
export FLWR_HOME="$folder" FLWR_TELEMETRY_ENABLED=0 PYTHONPATH="$folder"
"$folder/venv/bin/python" play.py > log 2>&1 || { tail -5 log; exit 1; }
"$folder/venv/bin/python" - <<'PY'
import json

with open("told.json") as file:
    told = json.load(file)
print(", ".join(f"node {node} has the rows of {rows}" for node, rows in told))
assert [node for node, _ in told] == [0, 1, 2, 3, 4] and len({rows for _, rows in told}) == 1
PY
