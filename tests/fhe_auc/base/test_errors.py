"""Errors say more than their text, also to another process."""

import pickle

import pytest

from fhe_auc.base.errors import InputError, ResultCheckError, VerificationError


@pytest.mark.parametrize("kind", [ResultCheckError, VerificationError])
def test_which_check_failed_outlives_the_way_to_another_process(kind: type[ResultCheckError]) -> None:
    error = pickle.loads(pickle.dumps(kind("the slots differ", check="slots")))  # noqa: S301 - our own bytes
    assert (str(error), error.check) == ("the slots differ", "slots")
    assert kind("refused").check is None  # a check of another package need not have a name


def test_an_error_says_what_is_wrong_to_programs_also_in_another_process_and_is_given_its_place() -> None:
    where = {"party": "north", "file": "north.csv", "line": 7, "column": "score"}
    error = InputError("score is nan", **where)
    for each in (error, pickle.loads(pickle.dumps(error))):  # noqa: S301 - our own bytes
        assert str(each) == "score is nan"
        assert {name: getattr(each, name) for name in where} == where
    assert {getattr(InputError("score is nan"), name) for name in where} == {None}
    error = InputError("score is nan", line=7, column="score").within("file 'north.csv'", file="north.csv")
    assert str(error) == "file 'north.csv': score is nan"
    assert (error.party, error.file, error.line, error.column) == (None, "north.csv", 7, "score")
    assert error.within("party 'north'", file="other.csv").file == "north.csv"
