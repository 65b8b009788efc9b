"""The refusals of this package that a caller may tell apart; the message is one line that names the culprit.

It holds no secret. What nobody tells apart is a `KeysError`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fhe_auc.base.errors import DeserialisationError, FheAucError


class KeysError(FheAucError):
    """A bundle, session or members' file is refused: of no member, for another, or used before; base of the rest."""


class RevokedError(KeysError):
    """Somebody is no member, or not any more."""


class ExpiredError(KeysError):
    """A members' file, a session or a bundle does not count any more, or not yet."""


class UnfitError(KeysError):
    """A key or a name that no member may have, or not beside those of others; or somebody's part in a session."""


class TamperedError(KeysError):
    """Signed or sealed bytes are not what their author wrote: damaged, truncated or forged."""


class UnsignedError(TamperedError):
    """Too few coordinators have signed a members' file, as yet."""


class VersionError(TamperedError):
    """Signed bytes say that they are of another version of fhe-auc: of no use here."""


class StoreError(KeysError):
    """A key store cannot do what was asked: a wrong passphrase, an entry that is missing, or there already."""


class DamagedFileError(StoreError):
    """A file of a key store is damaged, truncated or swapped."""


class LockedError(StoreError):
    """Another process has the key store open."""


class UnsafeModeError(StoreError):
    """A file or directory of a key store is open to others than its owner, or not a plain one."""


@contextmanager
def about(path: Path | str) -> Iterator[None]:
    """Let a refusal of this package say which file it is about."""
    try:
        yield
    except KeysError as error:
        raise type(error)(f"{path}: {error}") from None


def unreadable(error: Exception, damaged: str) -> StoreError:
    """Return what to raise of what is kept and cannot be read: another version is no damage, all else is `damaged`."""
    if isinstance(error, DeserialisationError) and error.field == "version":
        return StoreError(str(error))
    return DamagedFileError(damaged)
