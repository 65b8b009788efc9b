"""Key stores as a stranger sees them, who reads the file without the passphrase."""

from pathlib import Path

from fhe_auc_keys.store.database import Database
from fhe_auc_keys.store.key_store import STORE


def trail_of(store: Path) -> list[str]:
    """The lines of the audit trail in a store's folder."""
    with Database(store / STORE) as database:
        return [line.decode() for (line,) in database.rows("select line from trail order by number")]
