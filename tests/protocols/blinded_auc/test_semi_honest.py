"""The semi-honest protocol against exact integers and scikit-learn. At its limits and beyond: test_result_check."""

import functools

import numpy as np
import pytest

from fhe_auc import ckks
from fhe_auc.base.errors import InputError
from fhe_auc.question import thresholds
from fhe_auc.rows import datasets
from fhe_auc.rows.party_data import PartyData
from tests.support import chosen
from tests.support.blinded_auc import session_sums
from tests.support.pooled import exact_auc, pooled

BACKENDS = ckks.available_backends()
backends = pytest.mark.parametrize("backend", BACKENDS)
pytestmark = pytest.mark.backends("one")
slow = functools.partial(pytest.param, marks=pytest.mark.slow)
federated_auc = functools.partial(chosen.federated_auc, protocol="semi-honest")


@pytest.mark.backends("all")
@backends
@pytest.mark.parametrize("name", ["credit-default", slow("covid-clinics")])
def test_parties_of_one_row_and_one_with_nearly_everything_read_the_exact_auc_and_tell_the_digits_they_may(
    backend: str, name: str
) -> None:
    rows, grid = pooled(datasets.load(name)), thresholds.resolve("uniform:100")
    pieces = np.split(np.random.default_rng(15).permutation(len(rows.y_true)), np.arange(1, 15))
    parties = [PartyData.from_arrays(f"site {i}", rows.y_true[of], rows.y_score[of]) for i, of in enumerate(pieces)]
    found, read = session_sums(parties, thresholds=grid, backend=backend)
    assert read.auc == pytest.approx(exact_auc(parties, grid), abs=1e-8)
    assert [each.auc for each in found] == [round(read.auc, found[0].decimals)] * 15
    assert found[0].parties == 15
    assert found[0].upload_bytes_per_party <= 180_000


def test_fewer_rows_than_the_precision_is_stated_for_are_warned_of():
    rows = ([0, 1] * 23, [0.1, 0.9] * 23)
    found = federated_auc([rows, rows], thresholds="uniform:5", min_rows=100)
    assert "fewer than min_rows = 100" in " ".join(found.warnings)


PAIR = ([0, 1], [0.1, 0.9])


def test_parties_or_names_that_are_none_are_refused():
    for parties in [None, 5, [], PAIR[0], "ab"]:
        with pytest.raises(InputError, match=r"list of|no parties|pair"):
            federated_auc(parties)
    twice = [PartyData.from_arrays("north", *PAIR)] * 2
    with pytest.raises(InputError, match="party 'north' is there twice"):
        federated_auc(twice)
    with pytest.raises(InputError, match="party 'NORTH' is there twice, also as 'north'"):
        federated_auc({"north": PAIR, "NORTH": PAIR})
    for name, problem in [
        ("x" * 65, "must have at most 64 characters, got 65"),
        ("half a surrogate \udcff", "must be printable text"),
        (" north", "without blanks at its ends"),
        ("nor\tth", "must be printable text"),
        ("AGGREGATOR", "must not be 'aggregator'"),
        ("Helper-1", "must not be 'helper-1'"),
    ]:
        with pytest.raises(InputError, match=f"the name of a party {problem}|{problem}"):
            federated_auc({name: PAIR})
