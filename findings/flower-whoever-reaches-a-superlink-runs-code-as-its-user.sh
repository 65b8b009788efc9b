#!/usr/bin/env bash
# flwr 1.42.0: whoever reaches a SuperLink's port starts runs there, and the code of a run's ServerApp runs as the
# SuperLink's user. Neither --enable-supernode-auth nor TLS asks who it is: those are about nodes.
#
# Here somebody who has nothing but the address, and the public certificate, has the SuperLink write a file.
# A reverse proxy in front does not help: what it forwards comes from its own machine.
# Why it matters: nodes must reach this port. Let a firewall, or a proxy that passes on /v1/fleet/ alone, keep others off.
set -euo pipefail
folder=$(mktemp -d)
started=()
trap 'kill "${started[@]}" 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check flwr==1.42.0
export PATH=$folder/venv/bin:$PATH FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
port=$(python -c 'import socket; held = socket.socket(); held.bind(("127.0.0.1", 0)); print(held.getsockname()[1])')
cd "$folder"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=localhost \
    -addext subjectAltName=IP:127.0.0.1 -keyout tls.key -out tls.pem 2> openssl.log || { cat openssl.log; exit 1; }
FLWR_HOME=$folder/server flower-superlink --host 127.0.0.1 --port "$port" --enable-supernode-auth \
    --ssl-ca-certfile tls.pem --ssl-certfile tls.pem --ssl-keyfile tls.key > superlink.log 2>&1 &
started+=($!)
until (exec 3<> "/dev/tcp/127.0.0.1/$port") 2>/dev/null; do sleep 0.5; done

mkdir -p stranger app
cat > stranger/config.toml <<END
[superlink]
default = "theirs"
[superlink.theirs]
address = "127.0.0.1:$port"
root-certificates = "$folder/tls.pem"
END
cat > app/pyproject.toml <<END
[project]
name = "anything"
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
from pathlib import Path

from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

server = ServerApp()
client = ClientApp()


@server.main()
def main(grid, context):
    Path("$folder/written").write_text("by the SuperLink's user")
END
FLWR_HOME=$folder/stranger flwr run app > /dev/null
for _ in $(seq 120); do [ -s written ] && break; sleep 0.5; done
cat written && echo
[ "$(cat written)" = "by the SuperLink's user" ]
