#!/usr/bin/env bash
# NVIDIA FLARE 2.9.0: as `nvflare provision` makes them, all servers of a machine keep their jobs in one folder:
# /tmp/nvflare/jobs-storage. A server has in its list, waiting to be run, what was submitted to another project, by people
# whom it does not know; and whatever empties /tmp, such as a restart of the machine, forgets all jobs.
#
# Here a job is submitted to one project's server, which has no client for it and then ends. The administrator of
# another project, with a certificate authority of its own, finds the job in his server's list.
# Why it matters: two studies on one machine, or a trial beside the real one, meet each other's jobs. Set uri_root of
# job_manager and root_dir of snapshot_persistor in local/resources.json.
set -euo pipefail
folder=$(mktemp -d)
started=()
trap 'kill "${started[@]}" 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check nvflare==2.9.0
export PATH=$folder/venv/bin:$PATH HOME=$folder
cd "$folder"
mkdir -p job/app/config
echo '{"name": "of the first project", "resource_spec": {}, "min_clients": 1, "deploy_map": {"app": ["@ALL"]}}' > job/meta.json
echo '{"format_version": 2, "workflows": []}' > job/app/config/config_fed_server.json
echo '{"format_version": 2, "executors": []}' > job/app/config/config_fed_client.json
serve() { # starts a project's server, and waits until its administrator reaches it
    port=$(python -c 'import socket; held = socket.socket(); held.bind(("127.0.0.1", 0)); print(held.getsockname()[1])')
    cat > "$1.yml" <<END
api_version: 3
name: $1
participants:
  - {name: localhost, type: server, org: $1, fed_learn_port: $port}
  - {name: admin@$1.org, type: admin, org: $1, role: project_admin}
builders:
  - path: nvflare.lighter.impl.workspace.WorkspaceBuilder
  - {path: nvflare.lighter.impl.static_file.StaticFileBuilder, args: {config_folder: config}}
  - path: nvflare.lighter.impl.cert.CertBuilder
  - path: nvflare.lighter.impl.signature.SignatureBuilder
END
    nvflare provision -p "$1.yml" -w "$1" --force > /dev/null
    "$1/$1/prod_00/localhost/startup/sub_start.sh" --once > "$1.log" 2>&1 &
    started+=($!)
    until jobs_of "$1" > /dev/null 2>&1; do sleep 2; done
}
jobs_of() { nvflare --format json job list --startup-kit "$1/$1/prod_00/admin@$1.org"; }
serve first
job=$(nvflare --format json job submit -j job --startup-kit first/first/prod_00/admin@first.org |
    python -c 'import json, sys; print(json.load(sys.stdin)["data"]["job_id"])')
trap 'kill "${started[@]}" 2>/dev/null || true; wait; rm -rf "$folder" "/tmp/nvflare/jobs-storage/$job"' EXIT
kill "${started[0]}"
wait "${started[0]}" || true
serve second
jobs_of second | tee list
grep -q "\"$job\".*\"SUBMITTED\"" list
