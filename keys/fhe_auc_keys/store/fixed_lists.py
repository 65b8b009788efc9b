"""The one list of submissions that a session's aggregator asks its helper about, and the secret of the query.

Both are in the aggregator's key store before one answer is worked out. After a crash the same list is gone on with, to
the same bytes. There is no other list: answers about one proof at two points would tell counts, and a party could
answer to what it has seen. Who has lost the store has lost the aggregator's key, too. A store that is put back from a
backup of before shows nothing here: then the helper, which takes one list, is what ends the session.
"""

import secrets

from fhe_auc.base.serialise import KeptFormat, SecretStruct, encode
from fhe_auc.session.manifest import Manifest
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.signatures import has_signed

_PURPOSE = b"list of submissions 1"


class _FixedList(SecretStruct, frozen=True):
    signature: bytes  # over the digests of manifest and list
    secret: bytes


_FORMAT = KeptFormat(b"fhelist", _FixedList, "list of submissions")


def fix(store: KeyStore, aggregator: Identity, manifest: Manifest, digest: bytes) -> bytes:
    """Return the secret, 32 bytes, of a session whose submissions have this digest in all; the same one each time.

    Raises `KeysError` where another list is fixed, and as `KeyStore.load`.
    """
    name, statement = manifest.session.hex(), encode((manifest.digest, digest))
    if not store.has("list", name):
        made = _FixedList(aggregator.sign(_PURPOSE, statement), secrets.token_bytes(32))
        store.put("list", name, _FORMAT.frame(made))
    kept = store.load("list", name, _FORMAT)
    if not has_signed(aggregator.signing_key, _PURPOSE, statement, kept.signature):
        raise KeysError(
            f"session {name} has one list of submissions, and this is another one: put back exactly those that it was "
            "begun with. Where they are lost, the session has ended: make a new one"
        )
    return kept.secret
