"""On a full disk every write says which file it was for, and what was there goes on once there is room."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fhe_auc.machines import outcomes
from fhe_auc.rows import row_store
from fhe_auc.session.journal import Journal
from fhe_auc_keys.bundles.sealed_bundles import Kept
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.site import key_erasure
from fhe_auc_keys.store.key_store import session_ids
from tests.support.certified import DAY
from tests.support.keys_commands import Clock, assert_fails, call, ok, open_as, store_of
from tests.support.keys_folder import NORTH
from tests.support.platforms import full_disk, needs_limits

pytestmark = needs_limits


def _journalled(act: Callable[[Journal], object]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        with Journal(folder / "journal") as journal:
            act(journal)

    return write


@pytest.mark.parametrize(
    ("write", "name"),
    [
        (lambda folder: outcomes.write_json(folder / "result.json", {}), "result.json"),
        (_journalled(lambda journal: journal.bind(bytes(16))), "journal/session"),
        (_journalled(lambda journal: journal.keep_message(1, b"message")), "journal/round-1.message"),
        (_journalled(lambda journal: journal.add(1, "north", b"submission")), "journal/round-1.north.submission"),
        (_journalled(lambda journal: journal.close_round(1, ("north",))), "journal/round-1.closed"),
        (_journalled(lambda journal: journal.keep_record({"counted": ["north"], "delivered": []})), "record.json"),
    ],
)
def test_what_a_role_writes_says_which_file_it_was_and_leaves_none(
    write: Callable[[Path], object], name: str, tmp_path: Path
) -> None:
    with full_disk(), pytest.raises(OSError, match=r"File too large|No space left") as caught:
        write(tmp_path)
    assert str(caught.value.filename).endswith(name)
    assert not [each for each in tmp_path.rglob("*") if each.is_file() and each.stat().st_size]


def test_rows_that_do_not_fit_into_the_temporary_folder_name_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_store, "IN_MEMORY", 10)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    column = row_store.Column("f8")
    column.append(np.arange(100))
    whole = np.memmap(tmp_path / "column", "f8", "w+", shape=100)
    for act in (lambda: column.append(np.arange(10**5)), lambda: row_store._like(whole)):
        with full_disk(), pytest.raises(OSError, match="File too large") as caught:
            act()
        assert caught.value.filename == str(tmp_path)


@pytest.mark.usefixtures("consortium")
def test_a_command_on_a_full_disk_names_the_file_and_does_its_work_afterwards(clock: Clock) -> None:
    limit = ("budget", "--limit", "4", *NORTH)
    with store_of("north") as store:
        before = store.count
    with full_disk():
        assert_fails(call(*limit), 1, r"disk I/O error: '.*north/store/store.sqlite'")
        with pytest.raises(OSError, match=r"disk I/O error: '.*north/store/store.sqlite'"):
            open_as("north")
    with store_of("north") as store:
        assert store.count == before
    ok(*limit)
    open_as("north")
    with pytest.raises(KeysError, match="opened before"):
        open_as("north")
    with store_of("north") as store:
        key_erasure.note_ends(store, at=clock.at + 8 * DAY)
        with full_disk(), pytest.raises(OSError, match=r"store\.sqlite"):
            key_erasure.note_ends(store, at=clock.at)
        (session,) = session_ids(store, "bundle")
        assert Kept.stored(store, session).end_seen
