"""What a site's code holds in a process that others share, as in a simulation: nothing of it is in a module's hands.

Flower's and FLARE's simulators play several sites in one process, one after the other: what modules, and their caches,
keep of one the next one finds. Between machines each site has a process of its own.

Looked for are scores in the rows' order, sorted, or each once, labels in the rows' order, and secrets: as bytes, in
arrays of any type of numbers, in Python's collections, and as hexadecimal text. What is made of them is not found.
"""

import gc
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from fhe_auc.base.serialise import decode
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import party
from fhe_auc_keys.bundles.session_keys import PartySecrets
from tests.support.exact_sessions import Play, rows

OURS = "fhe_auc", "fhe_auc_keys", "fhe_auc_protocols"


def forms_of(kept: Any) -> Iterator[bytes]:
    """What an object holds by itself: its bytes, its text, its numbers as float64."""
    if isinstance(kept, (bytes, bytearray)):
        yield bytes(kept)
    elif isinstance(kept, str):
        yield kept.lower().encode(errors="replace")
    elif isinstance(kept, np.ndarray):
        yield kept.tobytes()
        if kept.dtype.kind in "biuf":
            yield kept.astype(np.float64).tobytes()
    elif isinstance(kept, (list, tuple, set, frozenset, dict)):
        for numbers in (kept, kept.values()) if isinstance(kept, dict) else (kept,):
            if numbers and all(isinstance(each, (int, float)) and abs(each) < 1e300 for each in numbers):
                ordered = sorted(numbers) if isinstance(kept, (set, frozenset)) else list(numbers)
                yield np.array(ordered, np.float64).tobytes()


def kept_by_modules() -> bytes:
    """All that our modules reach by themselves: by their globals, classes, closures and caches."""
    modules = {name: vars(module) for name, module in sys.modules.items() if isinstance(module, ModuleType)}
    left: list[Any] = [kept for name, kept in modules.items() if name.partition(".")[0] in OURS]
    seen = {id(kept) for name, kept in modules.items() if name.partition(".")[0] not in OURS}
    found = list[bytes]()
    while left:
        each = left.pop()
        if id(each) not in seen and not isinstance(each, ModuleType):
            seen.add(id(each))
            found += forms_of(each)
            left += gc.get_referents(each)
    return b"\0\n".join(found)


def told_by(data: PartyData) -> dict[str, bytes]:
    """What is looked for of a site's rows; of few rows labels would be found by chance."""
    assert data.rows > 50
    score = data.y_score
    return {
        f"scores of {data.name}": score.tobytes(),
        f"sorted scores of {data.name}": np.sort(score).tobytes(),
        f"each score of {data.name}": np.unique(score).tobytes(),
        f"labels of {data.name}": data.labels.tobytes(),
        f"labels of {data.name} as numbers": data.labels.astype(np.float64).tobytes(),
    }


def found_of(own: dict[str, bytes], kept: bytes) -> list[str]:
    return [what for what, secret in own.items() if secret and (secret in kept or secret.hex().encode() in kept)]


FORMS: tuple[Callable[[PartyData], Any], ...] = (
    *(lambda data: data, lambda data: data.y_true, lambda data: data.labels.astype(np.int32)),
    *(lambda data: np.sort(data.y_score), lambda data: tuple(data.y_score.tolist())),
    *(lambda data: data.labels.tolist(), lambda data: dict(enumerate(data.y_score.tolist()))),
    *(lambda data: set(data.y_score.tolist()), lambda data: data.y_score.tobytes().hex().upper()),
    lambda data: lambda: data,
)


def test_what_a_module_keeps_is_found_in_any_of_these_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    sites = rows(len(FORMS), 6, most=4000)
    before = kept_by_modules()  # it takes a second where many tests ran before
    monkeypatch.setattr(party, "_KEPT", [form(data) for form, data in zip(FORMS, sites, strict=True)], raising=False)
    after = kept_by_modules()
    for data in sites:
        assert found_of(told_by(data), before) == []
        assert found_of(told_by(data), after)


@pytest.mark.parametrize(
    ("protocol", "keys"),
    [("verified", "sealed"), ("verified", "helper"), ("semi-honest", "sealed"), ("histogram-federated", "sealed")],
)
def test_no_module_and_no_cache_has_rows_or_secrets_of_the_sites_that_a_process_plays(protocol: str, keys: str) -> None:
    sites = rows(3, 7, most=400)
    play = Play(protocol, sites, keys=keys)
    message = play.until(2)
    response_keys = {each.name: getattr(each._side, "_response_key", b"") for each in play.parties}
    assert all(map(bool, response_keys.values())) is (keys == "helper")
    results = play.read(message)
    own = {what: told for data in sites for what, told in told_by(data).items()}
    for name, material in play.material.items() if keys == "sealed" else ():
        secrets = decode(material, PartySecrets, "material")
        middle = len(secrets.context) // 2  # of the secret key, as it is stored
        own |= {f"seed of {name}": secrets.seed, f"key of {name}": secrets.context[middle : middle + 64]}
    own |= {f"response key of {name}": key for name, key in response_keys.items()}
    kept = kept_by_modules()
    assert len(kept) > 100_000  # tables for arithmetic, and the last message
    assert found_of(own, kept) == []
    assert len({repr(each) for each in results}) == 1  # for which all had to be there
