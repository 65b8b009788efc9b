"""What a site's code holds in a process that others share, as in a simulation: nothing of it is in a module's hands.

Flower's and FLARE's simulators play several sites in one process, one after the other: what modules, and their caches,
keep of one the next one finds. Between machines each site has a process of its own.
"""

import gc
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from fhe_auc.base.serialise import decode
from fhe_auc_keys.bundles.session_keys import PartySecrets
from tests.support.exact_sessions import Play, rows

OURS = "fhe_auc", "fhe_auc_keys", "fhe_auc_protocols"


def kept_by_modules() -> Iterator[bytes]:
    """All bytes and arrays that our modules reach by themselves: their globals, classes, closures and caches."""
    modules = {name: vars(module) for name, module in sys.modules.items() if isinstance(module, ModuleType)}
    left: list[Any] = [kept for name, kept in modules.items() if name.partition(".")[0] in OURS]
    seen = {id(kept) for name, kept in modules.items() if name.partition(".")[0] not in OURS}
    while left:
        each = left.pop()
        if id(each) not in seen and not isinstance(each, ModuleType):
            seen.add(id(each))
            if isinstance(each, (bytes, bytearray)):
                yield bytes(each)
            elif isinstance(each, np.ndarray):
                yield each.tobytes()
            left += gc.get_referents(each)


@pytest.mark.parametrize(
    ("protocol", "keys"),
    [("verified", "sealed"), ("verified", "helper"), ("semi-honest", "sealed"), ("histogram-federated", "sealed")],
)
def test_no_module_and_no_cache_has_rows_or_secrets_of_the_sites_that_a_process_plays(protocol: str, keys: str) -> None:
    sites = rows(3, 5)
    play = Play(protocol, sites, keys=keys)
    message = play.until(2)
    response_keys = {each.name: getattr(each._side, "_response_key", b"") for each in play.parties}
    assert all(map(bool, response_keys.values())) is (keys == "helper")
    results = play.read(message)
    own = {f"scores of {data.name}": data.y_score.tobytes() for data in sites}
    for name, material in play.material.items() if keys == "sealed" else ():
        secrets = decode(material, PartySecrets, "material")
        middle = len(secrets.context) // 2  # of the secret key, as it is stored
        own |= {f"seed of {name}": secrets.seed, f"key of {name}": secrets.context[middle : middle + 64]}
    own |= {f"response key of {name}": key for name, key in response_keys.items()}
    kept = list(kept_by_modules())
    assert sum(map(len, kept)) > 100_000  # tables for arithmetic, and the last message
    assert [what for what, secret in own.items() if secret and any(secret in each for each in kept)] == []
    assert len({repr(each) for each in results}) == 1  # for which all had to be there
