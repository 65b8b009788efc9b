"""There is no key of a query before all submissions are fixed, and it hangs on each of them, their order, and more."""

import pytest

from fhe_auc.base.errors import EvaluationError
from fhe_auc.input_proofs.sessions import Submissions

SECRET, MANIFEST = bytes(32), bytes(range(32))
DIGESTS = [bytes([number]) * 32 for number in range(3)]


def fixed(*digests: bytes) -> Submissions:
    found = Submissions(len(digests))
    for each in digests:
        found.add(each)
    return found


def test_a_query_cannot_exist_before_the_last_submission_nor_a_submission_after_it() -> None:
    found = Submissions(3)
    for missing, digest in zip((3, 2, 1), DIGESTS, strict=True):
        with pytest.raises(EvaluationError, match=f"{missing} submissions are not fixed"):
            found.query_key(SECRET, MANIFEST)
        found.add(digest)
    with pytest.raises(EvaluationError, match="no further one"):
        found.add(DIGESTS[0])
    assert found.query_key(SECRET, MANIFEST) == fixed(*DIGESTS).query_key(SECRET, MANIFEST)


def test_the_key_hangs_on_every_submission_their_order_the_secret_and_the_manifest() -> None:
    right, other = fixed(*DIGESTS), bytes(31) + b"1"
    keys = {
        right.query_key(SECRET, MANIFEST),
        right.query_key(other, MANIFEST),
        right.query_key(SECRET, other),
        fixed(*DIGESTS[::-1]).query_key(SECRET, MANIFEST),
        fixed(*DIGESTS[:2], b"").query_key(SECRET, MANIFEST),
        fixed(*DIGESTS[:2]).query_key(SECRET, MANIFEST),
        fixed(DIGESTS[0] + DIGESTS[1], DIGESTS[2]).query_key(SECRET, MANIFEST),
    }
    assert {len(key) for key in keys} == {32}
    assert len(keys) == 7
