"""What parties derive for each of them: independent of one another, and summed over any list of them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc.base.errors import InputError
from fhe_auc.sums.common_shares import CommonShares

SECRET, DIGEST, T = bytes(range(32)), bytes(32), 2**41 + 27


def shares(secret: bytes = SECRET, modulus: int = T, size: int = 3) -> CommonShares:
    return CommonShares(secret, DIGEST, b"a test", "share", modulus=modulus, size=size)


@given(st.sets(st.integers(0, 40), min_size=1))
@settings(max_examples=30)
def test_a_total_is_the_sum_of_each_party_s_own(counted: set[int]) -> None:
    each = [shares().total([party]).tolist() for party in sorted(counted)]
    assert shares().total(sorted(counted)).tolist() == [sum(column) % T for column in zip(*each, strict=True)]


def test_the_sum_over_neighbours_takes_two_draws_however_many_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, draw = [], CommonShares._drawn
    monkeypatch.setattr(CommonShares, "_drawn", lambda self, index: drawn.append(index) or draw(self, index))
    shares().total([*range(2, 50), *range(60, 1000)])
    assert drawn == [2, 60, 50, 1000]


def test_shares_of_neighbours_are_uniform_and_independent() -> None:
    """Chi-squared over all values of three neighbours; a false alarm in 10^6, and the secrets are fixed."""
    from scipy import stats

    found: Counter[tuple[int, ...]] = Counter()
    for number in range(3000):
        made = shares(number.to_bytes(32, "big"), modulus=5, size=1)
        found[tuple(int(made.total([party])[0]) for party in range(3))] += 1
    assert len(found) == 5**3
    assert stats.chisquare(list(found.values())).pvalue > 1e-6


@pytest.mark.parametrize("counted", [[0, 0], [1, 0], [0, 2, 2], [-1, 0]])
def test_only_a_list_of_some_parties_once_each_in_order_is_summed(counted: list[int]) -> None:
    with pytest.raises(InputError, match="once each"):
        shares().total(counted)
    with pytest.raises(InputError, match="no parties"):
        shares().total([])


def test_shares_are_pinned_none_is_printed_and_a_secret_of_another_length_is_refused() -> None:
    """All parties derive them, on whatever machine and version."""
    assert shares().total([2, 3]).tolist() == [115587315686, 1786759923759, 1598852606488]
    assert repr(shares()) == "CommonShares(...)"
    with pytest.raises(InputError, match="32 bytes, got 31"):
        shares(bytes(31)).total([0])
