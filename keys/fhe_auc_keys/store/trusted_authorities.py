"""Whom a site trusts, as its key store keeps it: authorities and their newest revocation lists."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from fhe_auc.base.errors import DeserialisationError, InputError
from fhe_auc.base.files import read_from_others
from fhe_auc.base.serialise import KeptFormat
from fhe_auc_keys.errors import KeysError, unreadable
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.store.vault import OWN
from fhe_auc_keys.trust.certificates import Trust
from fhe_auc_keys.trust.public_keys import MALFORMED, RevocationList, subject_name
from fhe_auc_keys.trust.revocation import ends_soon, is_of, newer_list


class _StoredAuthorities(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    authorities: tuple[bytes, ...]  # DER, as are the others
    intermediates: tuple[bytes, ...]
    lists: tuple[bytes, ...]
    places: tuple[str, ...] = ()


_FORMAT = KeptFormat(b"fhetrus", _StoredAuthorities, "list of authorities")


@dataclass(frozen=True)
class Trusted:
    """Whom a site trusts."""

    authorities: tuple[x509.Certificate, ...] = ()
    intermediates: tuple[x509.Certificate, ...] = ()  # of the site's own chain: for nothing but their revocation lists
    lists: tuple[RevocationList, ...] = ()  # the newest of each authority
    places: tuple[str, ...] = ()  # where lists are fetched from: URLs and folders

    @classmethod
    def stored(cls, store: KeyStore) -> Trusted:
        """Return what a key store has, which may be nothing; raise `DamagedFileError` where it is malformed."""
        if OWN not in store.names("trust"):
            return cls()
        try:
            found = _FORMAT.unframe(store.get("trust", OWN))
            return cls(
                tuple(x509.load_der_x509_certificate(each) for each in found.authorities),
                tuple(x509.load_der_x509_certificate(each) for each in found.intermediates),
                tuple(x509.load_der_x509_crl(each) for each in found.lists),
                found.places,
            )
        except (DeserialisationError, *MALFORMED) as error:
            raise unreadable(error, f"trust/{OWN} is malformed; restore it from the backup") from None

    def keep(self, store: KeyStore) -> None:
        """Put it into a key store."""
        stored = _StoredAuthorities(
            tuple(each.public_bytes(Encoding.DER) for each in self.authorities),
            tuple(each.public_bytes(Encoding.DER) for each in self.intermediates),
            tuple(each.public_bytes(Encoding.DER) for each in self.lists),
            self.places,
        )
        store.put("trust", OWN, _FORMAT.frame(stored), replace=True)

    @property
    def trust(self) -> Trust:
        """For `fhe_auc_keys.trust.certificates.verify`."""
        return Trust(self.authorities, self.lists)

    def known(self) -> tuple[x509.Certificate, ...]:
        """Return all whose revocation lists count."""
        return (*self.authorities, *self.intermediates)

    def with_list(self, new: RevocationList) -> Trusted:
        """Return this with a newer revocation list; `KeysError` for nobody trusted here, otherwise as `newer_list`."""
        issuer = self._issuer(new)
        if issuer is None:
            name = subject_name(new.issuer)
            of_a_key = any(each.subject == new.issuer for each in self.known())
            raise KeysError(
                f"a revocation list of {name!r}, but of another key than the one trusted here: if the authority has "
                "taken a new one, add its certificate with --authority"
                if of_a_key
                else f"a revocation list of {name!r}, which is no authority trusted here: add its certificate with "
                "--authority"
            )
        old = self._list_of(issuer)
        others = tuple(each for each in self.lists if each is not old)
        return replace(self, lists=(*others, newer_list(new, old, issuer)))

    def wants(self, new: RevocationList) -> bool:
        """Whether a list, which need not be genuine, says that it is of somebody trusted here, and newer than ours."""
        issuer = self._issuer(new)
        old = None if issuer is None else self._list_of(issuer)
        return issuer is not None and (old is None or new.last_update_utc > old.last_update_utc)

    def ending(self, *, at: datetime) -> list[str]:
        """Return a sentence on each list that ends soon, or has ended; `at` is the present, with a time zone."""
        return [
            f"the revocation list of {subject_name(each.issuer)!r} counts until {each.next_update_utc:%Y-%m-%d %H:%M} "
            "UTC, and without one no session can go on: take the next one in by `fhe-auc keys enrol NAME "
            "--revocation-list`"
            for each in self.lists
            if ends_soon(each, at=at)
        ]

    def _issuer(self, found: RevocationList) -> x509.Certificate | None:
        return next((each for each in self.known() if is_of(found, each)), None)

    def _list_of(self, issuer: x509.Certificate) -> RevocationList | None:
        return next((each for each in self.lists if is_of(each, issuer)), None)


def read_certificates(path: Path) -> list[x509.Certificate]:
    """Return the certificates (PEM) in a file; `InputError` where there are none."""
    data = read_from_others(path)
    with _loading(path, "certificate in PEM"):
        found = x509.load_pem_x509_certificates(data)
        str([each.subject for each in found])  # names are parsed late; a malformed one is to be noticed here
        return found


def read_list(path: Path) -> RevocationList:
    """Return the revocation list in a file: PEM as we write it, or DER as most other authorities do."""
    return parse_list(read_from_others(path), path)


def parse_list(data: bytes, place: str | Path) -> RevocationList:
    """Return a revocation list as `read_list` does; `place` is for the error."""
    with _loading(place, "revocation list"):
        found = x509.load_pem_x509_crl(data) if data.startswith(b"-----") else x509.load_der_x509_crl(data)
        str(found.issuer)
        return found


@contextmanager
def _loading(place: str | Path, what: str) -> Iterator[None]:
    """Raise `InputError`, which says what the contents of `place` are not, where they cannot be loaded."""
    try:
        yield
    except MALFORMED:
        raise InputError(
            f"{str(place)!r} is no {what}; `fhe-auc keys show` tells what a file is", file=str(place)
        ) from None
