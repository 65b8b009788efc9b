"""measure_fleet.py: CPU and memory of a fleet's servers, each step in a process of its own with two workers.

    measure_fleet.py NEWFOLDER --parties 1000000                 devices that are all made; --dask: on Dask's workers
    measure_fleet.py NEWFOLDER --parties 10000000 --linked       10,000 devices, whose records stand in every range

With --linked all files of keys, and of records, are one file, and each range is told that its first member is number 0.
So all seals, signatures and proofs are checked, but that keys ascend from file to file. A device has 3 rows at most, as
proofs end at 33,554,431 rows in all. With --own-seal, too, sealing only lengthens a text: where memory is measured.
"""

import argparse
import itertools
import json
import subprocess
import sys
import time
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.question import thresholds
from fhe_auc.question.fleet import Fleet, FleetList, KeyFile
from fhe_auc.session import registry
from fhe_auc.session.protocol import Request
from fhe_auc_keys.fleet import aggregator, helper, simulation, tables
from fhe_auc_keys.fleet.session import FleetSession
from fhe_auc_keys.fleet.workers import Workers, make_store, peak
from fhe_auc_keys.roles import blobs
from fhe_auc_keys.roles.local_consortium import Consortium
from fhe_auc_keys.store.vault import OWN, Vault, create_with_random_passphrase
from fhe_auc_keys.trust import sealing
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.members import Change, Members

STEPS = {"collect": "aggregator", "open": "helper", "add": "aggregator", "decrypt": "helper"}
SEED, RANGE = bytes(32), 10_000


def with_own_seal() -> None:
    """Seal by nothing but more bytes."""
    sealing.seal = blobs.seal = lambda key, plaintext, *, info: bytes(sealing.OVERHEAD) + plaintext
    sealing.PrivateKeys.unseal = lambda self, sealed, *, info: sealed[sealing.OVERHEAD :]


def sealed_so(function: Any, *given: Any) -> Any:
    with_own_seal()
    return function(*given)


class Linked(Workers):
    """Two processes, where no range says which its first and last keys are."""

    own_seal = False

    def map(self, function: Any, parts: Any, *shared: Any) -> Any:
        task = partial(sealed_so, function) if self.own_seal else function
        for found in super().map(task, parts, *shared):
            yield (*found[:3], ()) if function is helper._opened else found


def prepare(folder: Path, parties: int, *, linked: bool, own_seal: bool) -> None:
    """Make keys, key stores, a session and records; and all that steps need, in a file."""
    if own_seal:
        with_own_seal()
    cap = simulation.MOST_ROWS = 3 if linked else simulation.MOST_ROWS
    made, keys, records = RANGE if linked else parties, str(folder / "keys"), str(folder / "records")
    with Workers(1 if linked else 2) as workers:
        parts = ((str(first), first, min(RANGE, made - first)) for first in range(0, made, RANGE))
        known = np.concatenate(list(workers.map(simulation._public_keys, parts, SEED)))
        listed = tables.write_keys(keys, known, RANGE)
        order = np.lexsort(known.T[::-1]).astype(np.uint32)
        if linked:
            own = listed.files[0]
            names = [f"{number:06}.parquet" for number in range(parties // RANGE)]
            listed = FleetList(tuple(KeyFile(name, RANGE, own.digest) for name in names))
        consortium = Consortium(())
        consortium.change(Change(fleets=[listed]))
        request = Request(
            parties=(), thresholds=thresholds.resolve("uniform:100"), fleet=Fleet.of(listed, row_cap=cap),
            max_rows=cap * parties, min_parties=parties, keys="helper", row_caps=cap,
        )  # fmt: skip
        document = consortium.convene(registry.load("exact").prepare(request).manifest)
        told, ranges = (document, consortium.members.files, consortium.holder, consortium.at), listed.ranges
        parts = ((each, order[each.first : each.first + each.number]) for each in ranges[: 1 if linked else None])
        counts, response_keys = [], {}
        for each, mine, _ in workers.map(simulation._submitted, parts, told, SEED, records, frozenset(range(5))):
            counts.append(each)
            response_keys |= mine
    for place, name in itertools.product((keys, records) if linked else (), names[1:] if linked else ()):
        Path(place, name).symlink_to(Path(place, names[0]))
    roles = {}
    for role in ("aggregator", "helper"):
        name = roles[role] = getattr(consortium, role)
        with create_with_random_passphrase(folder / role, folder / f"{role}.passphrase") as store:
            store.put("identity", OWN, consortium.identities[name].to_bytes())
        make_store(folder / f"worker-{role}", consortium.identities[name])
    state = {
        "document": document.hex(), "members": [each.hex() for each in consortium.members.files], "roles": roles,
        "holder": consortium.holder, "at": consortium.at.isoformat(), "linked": linked, "own_seal": own_seal,
        "expected": str(trapezoid(sum(counts[1:], counts[0])).fraction), "cap": cap,
        "response_keys": {index: key.hex() for index, key in response_keys.items()}, "order": order[:5].tolist(),
    }  # fmt: skip
    (folder / "state.json").write_text(json.dumps(state), encoding="utf-8")


def step(folder: Path, name: str, scheduler: str | None) -> dict[str, Any]:
    """Do a role's step, here, and say what it has taken."""
    state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    members, at = Members(tuple(map(bytes.fromhex, state["members"]))), datetime.fromisoformat(state["at"])
    if state["linked"]:
        whole = FleetList.ranges.func
        FleetList.ranges = property(lambda self: tuple(each._replace(first=0) for each in whole(self)))
    if state["own_seal"]:
        with_own_seal()
    Linked.own_seal = state["own_seal"]
    role = STEPS[name]
    vault = Vault(folder / role, folder / f"{role}.passphrase")
    with vault.open() as store:
        identity = replace(Identity.from_bytes(store.get("identity", OWN)), version=members.version)
    session = FleetSession.open(bytes.fromhex(state["document"]), identity, members, holder=state["holder"], at=at)
    keys, records, listed, answers = (str(folder / each) for each in ("keys", "records", "blobs", "answers"))
    result = folder / "result"
    started, told = time.perf_counter(), {}
    with Workers.on(scheduler) if scheduler else (Linked if state["linked"] else Workers)(2) as workers:
        if name == "collect":
            found = aggregator.collect(session, vault, records, listed, workers, at=at)
            told = {"records": found.records, "refused": found.refused}
        elif name == "open":
            told = helper.open_pads(session, vault, keys, listed, answers, workers, at=at).verdicts
        elif name == "add":
            document, told = aggregator.add(session, vault, records, listed, answers, workers, at=at)
            result.write_bytes(document)
        else:
            told = {"counted": helper.decrypt(session, vault, result.read_bytes(), answers, at=at)}
        return {
            "step": name, "role": role, "wall": round(time.perf_counter() - started, 1),
            "cpu": round(time.process_time() + workers.seconds, 1),
            "driver MB": peak() >> 20, "worker MB": workers.peak >> 20, "found": told,
        }  # fmt: skip


def read(folder: Path) -> dict[str, Any]:
    """Say whether the first five devices read the fraction over all rows."""
    state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    if state["own_seal"]:
        with_own_seal()
    simulation.MOST_ROWS = state["cap"]
    members, at = tuple(map(bytes.fromhex, state["members"])), datetime.fromisoformat(state["at"])
    announced = simulation._announced(bytes.fromhex(state["document"]), members, state["holder"], at)
    keys = {int(index): bytes.fromhex(key) for index, key in state["response_keys"].items()}
    made, first = (SEED, np.array(state["order"], np.uint32)), Members(members).fleets[0].ranges[:1]
    found = simulation._read(announced, made, list(first), str(folder / "answers"), keys)
    return {"step": "read", "equal": str(found) == state["expected"], "fraction": str(found)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parties", type=int, default=20_000)
    for name in ("dask", "linked", "own-seal"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--step", choices=("prepare", *STEPS, "read"), help=argparse.SUPPRESS)
    parser.add_argument("--scheduler", help=argparse.SUPPRESS)
    given = parser.parse_args()
    folder = given.folder.absolute()
    if given.step == "prepare":
        prepare(folder, given.parties, linked=given.linked, own_seal=given.own_seal)
    elif given.step == "read":
        print(json.dumps(read(folder)))
    elif given.step:
        print(json.dumps(step(folder, given.step, given.scheduler)))
    else:
        folder.mkdir()
        for name in ("prepare", *STEPS, "read"):
            command = [sys.executable, __file__, *sys.argv[1:], "--step", name]
            if not (given.dask and name in STEPS):
                subprocess.run(command, check=True)
                continue
            from distributed import LocalCluster

            environment = {"FHE_AUC_STORE": str(folder / f"worker-{STEPS[name]}")}
            quiet = {"dashboard_address": "127.0.0.1:0", "silence_logs": 50, "threads_per_worker": 1}
            with LocalCluster(n_workers=2, host="127.0.0.1", env=environment, **quiet) as cluster:
                subprocess.run([*command, "--scheduler", cluster.scheduler_address], check=True)


if __name__ == "__main__":
    main()
