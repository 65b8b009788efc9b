#!/usr/bin/env bash
# flwr 1.42.0: a SuperNode starts a process for each message. Where that takes more than 30 seconds until it first asks for
# its task, the SuperNode starts another one, and refuses the first (401, "Runtime task-token authentication failed"); the
# second one fares as badly. The message is never answered, the ServerApp waits, and nothing ends.
#
# Here the program waits for 40 seconds before it starts, as on a machine that has too much to do: processes are started
# again and again, none of them answers, and no error reaches the ServerApp.
# Why it matters: a node with many others at work, or a slow disk, is silent from then on, though each process is right.
set -euo pipefail
folder=$(mktemp -d)
started=()
trap 'kill "${started[@]}" 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check flwr==1.42.0
mkdir "$folder/slow" "$folder/app"
cat > "$folder/slow/flwr-clientapp" <<END
#!/bin/sh
echo started >> "$folder/starts"
sleep 40
exec "$folder/venv/bin/flwr-clientapp" "\$@"
END
chmod +x "$folder/slow/flwr-clientapp"
export PATH=$folder/slow:$folder/venv/bin:$PATH FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1 FLWR_HOME=$folder/home
cd "$folder"
free() { python -c 'import socket; held = socket.socket(); held.bind(("127.0.0.1", 0)); print(held.getsockname()[1])'; }
port=$(free)
mkdir home
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
    while not (nodes := list(grid.get_node_ids())):
        time.sleep(1)
    asked = list(grid.push_messages([Message(RecordDict({}), nodes[0], "query.any")]))
    while not (replies := list(grid.pull_messages(asked))):
        time.sleep(1)
    Path("$folder/answered").write_text(str(replies[0]))
END
flower-superlink --insecure --port "$port" > superlink.log 2>&1 &
started+=($!)
until (exec 3<> "/dev/tcp/127.0.0.1/$port") 2>/dev/null; do sleep 1; done
flower-supernode --insecure --superlink "127.0.0.1:$port" --port "$(free)" > supernode.log 2>&1 &
started+=($!)
flwr run app > /dev/null
until [ "$(cat starts 2>/dev/null | wc -l)" -ge 4 ]; do sleep 1; done
refused=$(grep -c '401 Unauthorized' supernode.log || true)
echo "of $(wc -l < starts) processes for one message $refused were refused so far; answered: $([ -e answered ] && echo yes || echo no)"
[ ! -e answered ] && [ "$refused" -ge 1 ]
