"""Tasks: their results in order, and each once, whatever dies."""

import multiprocessing
import os
import sys

import pytest

from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc_keys.fleet.tasks import Workers
from tests.support.programs import run


def square(number: int, offset: int) -> int:
    return number * number + offset


def fail(number: int) -> int:
    raise InputError(f"{number} is not to my taste")


def die(number: int) -> int:
    os._exit(1)


def test_one_worker_is_this_process() -> None:
    with Workers() as workers:
        assert list(workers.map(square, ((each,) for each in range(5)), 1)) == [1, 2, 5, 10, 17]
        assert list(workers.map(lambda _: os.getpid(), [(0,)])) == [os.getpid()]
        with pytest.raises(InputError, match="7 is not to my taste"):
            list(workers.map(fail, [(7,)]))


def test_no_worker_is_refused() -> None:
    with pytest.raises(InputError, match="at least one worker, got 0"):
        Workers(0)


def test_a_worker_that_dies_ends_with_a_clear_word() -> None:
    with Workers(2) as workers, pytest.raises(EvaluationError, match="has died: is there enough memory"):
        list(workers.map(die, [(1,)]))


def test_workers_leave_nothing_behind_and_the_environment_as_it_was() -> None:
    before = dict(os.environ)
    with Workers(2) as workers:
        assert list(workers.map(square, ((each,) for each in range(9)), 0)) == [each * each for each in range(9)]
        with pytest.raises(InputError, match="7 is not to my taste"):
            list(workers.map(fail, [(7,)]))
        assert workers.seconds > 0
    assert dict(os.environ) == before
    assert multiprocessing.active_children() == []


def test_workers_end_with_a_parent_that_is_killed() -> None:
    """They have what tasks share, private keys among it. As they have its output, too, `run` waits for them."""
    code = (
        "import os; from fhe_auc_keys.fleet.tasks import Workers; "
        "found = Workers(2).map(int, [(1,), (2,)]); next(found); os._exit(9)"
    )
    assert run([sys.executable, "-c", code], timeout=120).returncode == 9
