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

import msgspec
import numpy as np

from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.question import thresholds
from fhe_auc.question.fleet import FleetList
from fhe_auc_keys.fleet import aggregator, helper, simulation
from fhe_auc_keys.fleet.session import FleetSession
from fhe_auc_keys.fleet.workers import Workers, make_store, peak
from fhe_auc_keys.roles import blobs
from fhe_auc_keys.store.vault import OWN, Vault, create_with_random_passphrase
from fhe_auc_keys.trust import sealing
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.members import Members

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


class State(msgspec.Struct):
    """What steps need."""

    told: tuple[bytes, tuple[bytes, ...], str, datetime]  # `simulation.Told`
    expected: float
    response_keys: dict[int, bytes]
    order: list[int]


def prepare(folder: Path, parties: int, *, linked: bool, epsilon: float | None) -> State:
    """Make keys, key stores, a session and records; return all that steps need."""
    keys, records = str(folder / "keys"), str(folder / "records")
    with Workers(1 if linked else 2) as workers:
        made, order = simulation.make_keys(keys, RANGE if linked else parties, RANGE, SEED, workers)
        names = [f"{number:06}.parquet" for number in range(parties // RANGE)] if linked else []
        listed = FleetList(tuple(msgspec.structs.replace(made.files[0], name=name) for name in names) or made.files)
        consortium, told = simulation.convene(listed, thresholds.resolve("uniform:100"), proofs=True, epsilon=epsilon)
        counts, response_keys, _ = simulation.submit(made, order, told, SEED, records, range(5), workers)
    for place, name in itertools.product((keys, records), names[1:]):
        Path(place, name).symlink_to(Path(place, names[0]))
    for role in ("aggregator", "helper"):
        identity = consortium.identities[getattr(consortium, role)]
        with create_with_random_passphrase(folder / role, folder / f"{role}.passphrase") as store:
            store.put("identity", OWN, identity.to_bytes())
        make_store(folder / f"worker-{role}", identity)
    return State(told, float(trapezoid(counts).fraction), response_keys, order[:5].tolist())


def step(folder: Path, name: str, state: State, *, linked: bool, scheduler: str | None) -> dict[str, Any]:
    """Do a role's step, here, and say what it has taken."""
    document, files, holder, at = state.told
    members, role = Members(files), STEPS[name]
    if linked:
        whole = FleetList.ranges.func
        FleetList.ranges = property(lambda self: tuple(each._replace(first=0) for each in whole(self)))
    vault = Vault(folder / role, folder / f"{role}.passphrase")
    with vault.open() as store:
        identity = replace(Identity.from_bytes(store.get("identity", OWN)), version=members.version)
    session = FleetSession.open(document, identity, members, holder=holder, at=at)
    keys, records, listed, answers = (str(folder / each) for each in ("keys", "records", "blobs", "answers"))
    result, started = folder / "result", time.perf_counter()
    with Workers.on(scheduler) if scheduler else (Linked if linked else Workers)(2) as workers:
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


def read(folder: Path, state: State) -> dict[str, Any]:
    """Say what the first five devices read, and how far that is from the AUC over all rows."""
    order = np.array(state.order, np.uint32)
    listed = FleetList(Members(state.told[1]).fleets[0].files[:1])
    found = simulation.read(listed, order, state.told, SEED, str(folder / "answers"), state.response_keys)
    noise = found.settings.get("noise_standard_error", 0.0)
    return {"step": "read", "auc": found.auc, "off": found.auc - state.expected, "noise": noise}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parties", type=int, default=20_000)
    parser.add_argument("--epsilon", type=float, help="a device's privacy budget; none by default")
    for name in ("dask", "linked", "own-seal"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--step", choices=("prepare", *STEPS, "read"), help=argparse.SUPPRESS)
    parser.add_argument("--scheduler", help=argparse.SUPPRESS)
    given = parser.parse_args()
    folder = given.folder.absolute()
    file, simulation.MOST_ROWS = folder / "state", 3 if given.linked else simulation.MOST_ROWS
    if given.own_seal and given.step:
        with_own_seal()
        Linked.own_seal = True
    if given.step == "prepare":
        file.write_bytes(
            msgspec.msgpack.encode(prepare(folder, given.parties, linked=given.linked, epsilon=given.epsilon))
        )
    elif given.step:
        state = msgspec.msgpack.decode(file.read_bytes(), type=State)
        if given.step == "read":
            print(json.dumps(read(folder, state)))
        else:
            print(json.dumps(step(folder, given.step, state, linked=given.linked, scheduler=given.scheduler)))
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
