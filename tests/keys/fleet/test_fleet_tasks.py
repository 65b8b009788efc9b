"""Tasks: their results in order, and each once, whatever dies."""

import os
import signal
import stat
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc_keys.fleet.tasks import Workers
from tests.support.programs import run

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")


def square(number: int, offset: int) -> int:
    return number * number + offset


def fail(number: int) -> int:
    raise InputError(f"{number} is not to my taste")


def die_once(number: int, folder: str) -> int:
    """Kill this process half way through the third task, the first time."""
    died = Path(folder) / "died"
    if number == 3 and not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def die(number: int) -> int:
    os._exit(1)


def test_one_worker_is_this_process() -> None:
    with Workers() as workers:
        assert list(workers.map(square, ((each,) for each in range(5)), 1)) == [1, 2, 5, 10, 17]
        assert list(workers.map(lambda _: os.getpid(), [(0,)])) == [os.getpid()]
        with pytest.raises(InputError, match="7 is not to my taste"):
            list(workers.map(fail, [(7,)]))


def test_without_ray_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    Workers(1)
    with pytest.raises(InputError, match="at least one worker, got 0"):
        Workers(0)
    with pytest.raises(InputError, match=r"more workers than one need ray: .*pip install '\.\[ray\]'"):
        Workers(2)


@needs_ray
@pytest.mark.slow
def test_a_task_of_which_every_worker_dies_ends_with_a_clear_word() -> None:
    with Workers(2) as workers, pytest.raises(EvaluationError, match="has died 4 times"):
        list(workers.map(die, [(1,)]))


@needs_ray
@pytest.mark.slow
def test_a_worker_that_dies_is_replaced_and_what_it_did_counts_once(tmp_path: Path) -> None:
    """And its folder is for its user alone, nothing is left behind, and the environment is as it was."""
    before = dict(os.environ)
    with Workers(2) as workers:
        assert list(workers.map(die_once, ((each,) for each in range(9)), str(tmp_path))) == list(range(9))
        assert (tmp_path / "died").exists()
        with pytest.raises(InputError, match="7 is not to my taste"):
            list(workers.map(fail, [(7,)]))
        folder = Path(os.environ["RAY_AUTH_TOKEN_PATH"]).parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert dict(os.environ) == before
    assert not folder.exists()


@needs_ray
def test_where_ray_was_imported_before_its_ports_would_be_open_so_none_is_opened() -> None:
    code = "import ray; from fhe_auc_keys.fleet.tasks import Workers; Workers(2).__enter__()"
    done = run([sys.executable, "-c", code], timeout=120)
    assert "EvaluationError: Ray was imported in this process before" in done.stderr
