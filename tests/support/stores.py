"""Key stores as a stranger sees them, who reads and writes the file without the passphrase."""

from collections.abc import Callable
from pathlib import Path

from fhe_auc_keys.store.database import Database
from fhe_auc_keys.store.key_store import STORE


def trail_of(store: Path) -> list[str]:
    """The lines of the audit trail in a store's folder."""
    with Database(store / STORE) as database:
        return [line.decode() for (line,) in database.rows("select line from trail order by number")]


def alter(store: Path, entry: str, change: Callable[[bytes], bytes]) -> None:
    """Change the bytes of an entry, kind/name."""
    where = tuple(entry.split("/"))
    with Database(store / STORE) as database:
        ((data,),) = database.rows("select data from entry where kind = ? and name = ?", *where)
        database.change("update entry set data = ? where kind = ? and name = ?", change(data), *where)
