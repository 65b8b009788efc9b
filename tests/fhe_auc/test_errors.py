"""Errors say more than their text, also to another process."""

from __future__ import annotations

import pickle

import pytest

from fhe_auc.errors import ResultCheckError, VerificationError


@pytest.mark.parametrize("kind", [ResultCheckError, VerificationError])
def test_which_check_failed_outlives_the_way_to_another_process(kind: type[ResultCheckError]) -> None:
    error = pickle.loads(pickle.dumps(kind("the slots differ", check="slots")))  # noqa: S301 - our own bytes
    assert (str(error), error.check) == ("the slots differ", "slots")


@pytest.mark.parametrize("kind", [ResultCheckError, VerificationError])
def test_a_check_of_another_package_need_not_have_a_name(kind: type[ResultCheckError]) -> None:
    assert kind("refused").check is None
