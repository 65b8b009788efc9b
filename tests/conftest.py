"""Contexts and sessions that many tests share: keys are made once for each backend."""

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings

from fhe_auc import ckks
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.protocol import Request, Session
from fhe_auc_keys.store import key_store
from fhe_auc_protocols.blinded_auc.semi_honest import SemiHonest

# Arrow's pipe for signals would live on in forks that close what they inherit: these abort when they fork in turn.
pa.enable_signal_handlers(False)
pytest.register_assert_rewrite("tests.support", "tests.suite")
pytest_plugins = ["tests.support.cpu_time"]
key_store._stretch = cache(key_store._stretch)  # it takes 3 ms, and tests open the same stores often
# No test fails because the machine is busy, or by luck: the same examples every time. Others, again and again:
# `pytest -m hypothesis --hypothesis-profile search`.
settings.register_profile("the same everywhere", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("search", deadline=None)
settings.load_profile("the same everywhere")


@pytest.hookimpl(tryfirst=True)  # before `-m "not slow"` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where what is tested does not depend on the library, the quick tests run on SEAL alone, and the others are slow.

    A module says so by `pytestmark = pytest.mark.backends("one")`, a test that looks at them all by "all". What needs
    OpenFHE is marked `openfhe` and skipped where it cannot be imported; what is told to use it, or looks at all, gets
    the mark here: `make test-openfhe` runs what has it.
    """
    available = ckks.available_backends()
    for item in items:
        marker, call = item.get_closest_marker("backends"), getattr(item, "callspec", None)
        given = {value for value in call.params.values() if isinstance(value, str)} if call else set()
        which = marker.args if marker else ()
        if which == ("one",) and not given.isdisjoint(available[:-1]):
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("openfhe"):
            if "openfhe" not in available:
                item.add_marker(pytest.mark.skip(reason="OpenFHE cannot be imported here"))
        elif "openfhe" in given or (which == ("all",) and given.isdisjoint(available)):
            item.add_marker(pytest.mark.openfhe)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is there then stays: to search it for garbage again and again would take seconds."""
    gc.disable()
    found = yield
    gc.collect()
    gc.freeze()
    gc.enable()
    return found


@pytest.fixture(params=ckks.available_backends(), scope="session")
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
def parameters(backend: str) -> ckks.CkksParameters:
    """At the default primes."""
    from tests.support.schemes import Ckks  # only now: after its asserts have been registered

    return Ckks().parameters(backend)


@pytest.fixture(scope="session")
def pair(parameters: ckks.CkksParameters) -> ckks.KeyPair:
    return ckks.generate(parameters)


@pytest.fixture(scope="session")
def other_pair(parameters: ckks.CkksParameters) -> ckks.KeyPair:
    """Other keys for the same parameters."""
    return ckks.generate(parameters)


@pytest.fixture(scope="session")
def site_rows() -> list[PartyData]:
    """Three sites with rows of both labels; none alone has the pooled AUC."""
    generator = np.random.default_rng(20240501)
    sites = []
    for name, rows, shift in (("north", 60, 0.2), ("south", 45, 0.35), ("east", 80, 0.05)):
        y_true = generator.random(rows) < 0.4
        y_score = np.clip(0.4 + shift * y_true + 0.2 * generator.standard_normal(rows), 0, 1)
        sites.append(PartyData.from_arrays(name, y_true, y_score))
    return sites


@pytest.fixture(scope="session")
def prepare(site_rows: list[PartyData]) -> Callable[..., Session]:
    """Return a function that prepares a semi-honest session for the three sites."""

    def prepared(backend: str, **changes: Any) -> Session:
        request = {
            "parties": tuple(data.name for data in site_rows),
            "thresholds": np.linspace(0, 1, 16),
            "backend": backend,
            "min_parties": 2,
        }
        return SemiHonest().prepare(Request(**{**request, **changes}))

    return prepared


@pytest.fixture(scope="session")
def prepared(backend: str, prepare: Callable[..., Session]) -> Session:
    """A prepared session; the roles made from it are each test's own."""
    return prepare(backend)


@pytest.fixture(scope="session")
def other_prepared(backend: str, prepare: Callable[..., Session]) -> Session:
    """Another session of the same sites, with keys of its own."""
    return prepare(backend)


@pytest.fixture(scope="session")
def assert_texts_apart() -> Callable[..., None]:
    """Check that a figure draws `least` texts or more, none over another or more than `beyond` pixels off its edge."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    def check(figure: Any, *, least: int, beyond: float = 0) -> None:
        canvas = FigureCanvasAgg(figure)
        canvas.draw()  # settles the layout
        boxes = {}
        draw_text = Text.draw

        def record(text: Text, renderer: Any) -> None:
            draw_text(text, renderer)
            if text.get_visible() and text.get_text():
                boxes[text] = text.get_window_extent(renderer)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Text, "draw", record)  # matplotlib keeps more texts than it draws
            canvas.draw()
        assert len(boxes) >= least
        for text, box in boxes.items():
            assert (figure.bbox.min <= box.min + beyond).all(), f"{text} leaves the figure"
            assert (box.max <= figure.bbox.max + beyond).all(), f"{text} leaves the figure"
        for one, other in combinations(boxes, 2):
            assert not boxes[one].padded(-1).overlaps(boxes[other].padded(-1)), f"{one} overlaps {other}"

    return check


@pytest.fixture(autouse=True)
def own_variables() -> Iterator[None]:
    """Leave our variables as they were: a command sets some for the processes that it starts."""
    before = {name: value for name, value in os.environ.items() if name.startswith("FHE_AUC_")}
    yield
    for name in [name for name in os.environ if name.startswith("FHE_AUC_")]:
        del os.environ[name]
    os.environ.update(before)


@pytest.fixture(scope="session")
def run_child() -> Callable[..., Any]:
    """Return a function that runs Python code in a process of its own and returns the JSON that it printed last.

    A child that dies, by a signal too, fails the test with what it last wrote to stderr. It can import `tests.support`.
    """
    path = os.pathsep.join(filter(None, (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH"))))

    def run(code: str, *arguments: str, data: bytes = b"", timeout: float = 120) -> Any:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1", "PYTHONPATH": path}
        child = subprocess.run(
            [sys.executable, "-c", code, *arguments], input=data, capture_output=True, timeout=timeout, env=environment
        )
        if child.returncode:
            pytest.fail(f"child process ended with {child.returncode}: {child.stderr[-2000:].decode(errors='replace')}")
        return json.loads(child.stdout.splitlines()[-1])

    return run
