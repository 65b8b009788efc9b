"""Where `fhe_auc.machines.local_sites` plays sessions over Flower: simulated sites, or SuperNodes over TLS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fhe_auc.machines.flower.certificates import node_keys
from fhe_auc.machines.flower.runtime import Runtime
from fhe_auc.machines.local_sites import Place


class Flower(Place):
    """Flower on this machine: `deployed` gives each site a SuperNode, over TLS; else the sites are simulated."""

    def __init__(self, *, deployed: bool) -> None:
        self._deployed = deployed
        self._runtime = Runtime(secured=deployed)
        self.folder = self._runtime.folder

    def __exit__(self, *error: object) -> None:
        self._runtime.__exit__(*error)

    def run(self, config: dict[str, Any], nodes: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        """Start Flower, run the session and return who took part; errors are those of `Runtime.run`."""
        if not self._deployed:
            self._runtime.start_simulating(list(nodes.values()))
            return self._runtime.run(config, virtual_sites=len(nodes))
        self._runtime.start_superlink()
        folder = self.folder / "session"
        keys = {name: node_keys(folder, f"node-{number}") for number, name in enumerate(nodes)}
        ids = {name: self._runtime.register(public) for name, (_, public) in keys.items()}
        for number, (name, own) in enumerate(nodes.items()):
            self._runtime.start_supernode(f"supernode-{number}", keys[name][0], own)
        return self._runtime.run({**config, "nodes": ", ".join(f"{name}:{node}" for name, node in ids.items())})
