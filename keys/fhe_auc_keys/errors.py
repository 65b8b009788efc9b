"""Every refusal of this package, one type each; the message is one line that names the culprit, and holds no secret."""

from __future__ import annotations

from fhe_auc.errors import FheAucError


class KeysError(FheAucError):
    """Base class of all errors of this package."""


class UnknownIssuerError(KeysError):
    """A certificate, statement or bundle comes from nobody that was declared trusted."""


class RevokedError(KeysError):
    """A certificate is on its issuer's revocation list."""


class ExpiredError(KeysError):
    """A certificate, revocation list or bundle is not valid any more, or not yet."""


class OutdatedListError(ExpiredError):
    """A revocation list is older than the one that is there already."""


class FetchError(KeysError):
    """A revocation list cannot be fetched from where it is published."""


class UnfitCertificateError(KeysError):
    """A certificate or certificate request does not hold what this package needs."""


class UnfitNameError(KeysError):
    """A name that no party, or no file of a key store, may have."""


class WrongRecipientError(KeysError):
    """A bundle was sealed to another party or another certificate."""


class WrongSessionError(KeysError):
    """A bundle belongs to another session."""


class WrongContextError(KeysError):
    """Key material belongs to another encryption context than that of the session."""


class SecretInBundleError(KeysError):
    """What was to go to the aggregator holds, or may hold, secret key material."""


class TamperedError(KeysError):
    """Signed or sealed bytes are not what their author wrote: damaged, truncated or forged."""


class ReplayedError(KeysError):
    """A bundle has been opened before."""


class ClosedError(KeysError):
    """A session has been closed here: its keys are destroyed."""


class NotEndedError(KeysError):
    """A session that can still yield its result is not closed unasked."""


class ReleasedError(KeysError):
    """A session has released its result, or may have: it is not made again without some of its parties."""


class OutsidePolicyError(KeysError):
    """A session is not one that the site opens without asking anybody."""


class StoreError(KeysError):
    """A key store cannot do what was asked; base class of the errors below."""


class WrongPassphraseError(StoreError):
    """The passphrase is not this key store's."""


class DamagedFileError(StoreError):
    """A file of a key store is damaged, truncated or swapped."""


class LockedError(StoreError):
    """Another process has the key store open."""


class UnsafeModeError(StoreError):
    """A file or directory of a key store is open to others than its owner, or not a plain one."""


class MissingError(StoreError):
    """A key store has no such entry."""


class ExistsError(StoreError):
    """An entry, or a key store, is there already and is not overwritten."""
