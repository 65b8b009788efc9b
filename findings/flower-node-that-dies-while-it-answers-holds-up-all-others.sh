#!/usr/bin/env bash
# flwr 1.42.0: Grid.pull_messages has no timeout, and waits for each answer that a node has announced. A node that dies
# between that and its last byte makes it wait for three minutes, in which the answers of other nodes are not given out.
#
# Here one of two nodes announces its answer, and then hangs. (One that goes on sending a byte now and then makes it wait
# for up to two hours; both are constants of Flower's.)
# Why it matters: a ServerApp that polls by a clock of its own stands still, at each message to such a node.
set -euo pipefail
folder=$(mktemp -d)
started=()
trap 'kill "${started[@]}" 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check flwr==1.42.0
mkdir "$folder/hangs" "$folder/app" "$folder/home"
cat > "$folder/hangs/sitecustomize.py" <<END
import time

import flwr.supernode.start_client_internal as node

node.push_object_contents_from_iterable = lambda *args, **options: time.sleep(10**6)
END
export PATH=$folder/venv/bin:$PATH FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1 FLWR_HOME=$folder/home
cd "$folder"
free() { python -c 'import socket; held = socket.socket(); held.bind(("127.0.0.1", 0)); print(held.getsockname()[1])'; }
port=$(free)
printf '[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:%s"\ninsecure = true\n' "$port" > home/config.toml
cat > app/pyproject.toml <<END
[project]
name = "any"
version = "1.0.0"
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "anybody"
[tool.flwr.app.components]
serverapp = "code:server"
clientapp = "code:client"
END
cat > app/code.py <<END
import time
from pathlib import Path

from flwr.app import Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

server = ServerApp()
client = ClientApp()


@client.query("any")
def answer(message, context):
    return Message(RecordDict({}), reply_to=message)


@server.main()
def main(grid, context):
    while len(nodes := list(grid.get_node_ids())) < 2:
        time.sleep(1)
    asked = list(grid.push_messages([Message(RecordDict({}), node, "query.any") for node in nodes]))
    longest, codes = 0.0, []
    while 3 not in codes:
        before = time.monotonic()
        for reply in grid.pull_messages(asked):
            asked.remove(reply.metadata.reply_to_message_id)
            codes += [reply.error.code] if reply.has_error() else []
        longest = max(longest, time.monotonic() - before)
    Path("$folder/told").write_text(f"{longest:.0f}")
END
flower-superlink --insecure --port "$port" > superlink.log 2>&1 &
started+=($!)
until (exec 3<> "/dev/tcp/127.0.0.1/$port") 2>/dev/null; do sleep 1; done
flower-supernode --insecure --superlink "127.0.0.1:$port" --port "$(free)" > one.log 2>&1 &
started+=($!)
PYTHONPATH=$folder/hangs flower-supernode --insecure --superlink "127.0.0.1:$port" --port "$(free)" > two.log 2>&1 &
started+=($!)
flwr run app > /dev/null
until [ -s told ]; do sleep 1; done
echo "one call of pull_messages took $(cat told) seconds"
[ "$(cat told)" -gt 150 ]
