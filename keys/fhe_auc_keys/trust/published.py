"""Members' files in an exchange: each coordinator has all versions in its own place.

    NAME/members/1.json, NAME/members/2.json, …    of the coordinator NAME, who puts back what is changed there

Nobody can lock an exchange, so two coordinators may make one version at the same moment. Each looks again once it has
written, and takes its own back where it sees another. Where two stay all the same, that is a *fork*: nobody takes
either, who has one keeps it, and all say so, until there is a next version that follows both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from fhe_auc.base.errors import InputError
from fhe_auc.exchange.exchange import MEMBERS, Exchange, Version, place_of
from fhe_auc_keys.errors import KeysError, TamperedError
from fhe_auc_keys.trust.members import MAX_BYTES, Members


def file_of(name: str, version: int) -> str:
    """Return where a coordinator has a version in the exchange."""
    return f"{place_of(name)}{MEMBERS}{version}.json"


class Next(NamedTuple):
    """A next version that lies in the exchange; only where it is `signed` by enough coordinators does it count."""

    file: str
    data: bytes
    members: Members
    signed: bool


class Published:
    """The members' files in an exchange; `wrong` says what was not as it should be at the last look."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.wrong: list[str] = []
        self._equal: dict[str, Version] = {}  # copies of what is known here

    def joined(self, root: bytes) -> Members:
        """Return the newest members of the consortium whose first file has the fingerprint `root`.

        Raises `InputError` where nobody has a first file here, `TamperedError` where it is another one.
        """
        found = list(self._first_files())
        for first in found:
            if first.root == root:
                return self.newest(first, everywhere=True)
        if not found:
            raise InputError(f"there is no members' file in {self.exchange}: is that the exchange of the link?")
        raise TamperedError("this is not the first members' file that the link names: ask the coordinator for it")

    def has_another(self, known: Members) -> bool:
        """Whether there is a consortium in the exchange that is not this one."""
        return any(first.root != known.root for first in self._first_files())

    def newest(self, members: Members, *, own: str = "", everywhere: bool = False) -> Members:
        """Return the newest version that can be taken; put back what the coordinator `own` should have in its place.

        One that lacks signatures may get them yet, and is passed over; so is what is no members' file, which is
        `wrong`. `everywhere`: look in all places of the exchange, as who coordinates by now may be unknown here.
        """
        self.wrong = []
        while True:
            listed = self._listed(members.coordinators, everywhere=everywhere)
            newer = self._newer(members, listed)
            if newer is None:
                break
            members = newer
        before = members.as_of(max(1, members.version - 1))  # others may look for the newest with its coordinators yet
        if left := set(before.coordinators).difference(members.coordinators):  # they may stop who is behind
            listed |= self._listed(sorted(left))
        if own in (*members.coordinators, *before.coordinators):
            self._put_back(members, own, listed)
        for file in _of_version(listed, members.version):
            if members.version == 1 or self._is(members.files[-1], file, listed[file]):
                continue
            other = _after(members.as_of(members.version - 1), self._read(file))
            if other is not None and other.digest == members.digest:  # with other signatures
                self._equal[file] = listed[file]
            elif other is not None:
                self.wrong.append(_fork(members.version, [file]))
        return members

    def waiting(self, members: Members) -> list[Next]:
        """Return the next versions that lack signatures; of one with several copies that with most of them."""
        best: dict[bytes, Next] = {}
        for found in self._nexts(members, self._listed(members.coordinators)):
            if found.signed:
                continue
            known = best.get(found.members.digest, found)
            best[found.members.digest] = max(known, found, key=lambda each: len(each.data))
        return list(best.values())

    def publish(self, members: Members, data: bytes, own: str) -> None:
        """Put a next version into the place of the coordinator `own`.

        Raises `KeysError`, and leaves nothing there, where another next version is in the exchange.
        """
        then, file = members.newer(data, signed=False), file_of(own, members.version + 1)
        self._require_no_other(members, then)
        self.exchange.put(file, data)
        try:
            self._require_no_other(members, then)
        except KeysError:
            self.exchange.remove(file)
            raise

    def _require_no_other(self, members: Members, then: Members) -> None:
        for found in self._nexts(members, self._listed((*members.coordinators, *then.coordinators))):
            if found.members.digest != then.digest:
                raise KeysError(
                    f"{found.file}: another coordinator makes version {then.version} of the members' file at the same "
                    "moment; nothing was changed: run the command again"
                )

    def _newer(self, members: Members, listed: Mapping[str, Version]) -> Members | None:
        """Return the next version where it can be taken: there is one, or what comes then follows all of them."""
        found = {each.members.digest: each for each in self._nexts(members, listed) if each.signed}
        if len(found) < 2:
            return next((each.members for each in found.values()), None)
        after = [self._read(file) for file in _of_version(listed, members.version + 2)]
        if any(all(_after(each.members, data) for each in found.values()) for data in after):
            return found[min(found)].members
        self.wrong.append(_fork(members.version + 1, [each.file for each in found.values()]))
        return None

    def _nexts(self, members: Members, listed: Mapping[str, Version]) -> Iterator[Next]:
        files = _of_version(listed, members.version + 1)
        for file in files:
            data = self._read(file)
            if data is None:
                continue
            try:
                signed = _after(members, data)
                found = Next(file, data, signed or members.newer(data, signed=False), signed=signed is not None)
            except KeysError as error:
                self.wrong.append(f"{file}: {error}")
                continue
            yield found
            if not found.signed:  # those whom it makes coordinators sign it in their own places
                named = (file_of(name, members.version + 1) for name in found.members.coordinators)
                files += [each for each in named if each not in files]

    def _put_back(self, members: Members, own: str, listed: Mapping[str, Version]) -> None:
        for version, data in enumerate(members.files, 1):
            file = file_of(own, version)
            if file in listed:
                if self._is(data, file, listed[file]):
                    continue
                there = _after(Members(members.files[: version - 1]), self._read(file), signed=False)
                if there is None or there.digest != members.as_of(version).digest:  # not the same, less its signatures
                    self.wrong.append(f"{file} was changed, and is put back")
            try:
                self.exchange.put(file, data)
            except (OSError, InputError) as error:
                self.wrong.append(f"{file}: {error}")

    def _is(self, data: bytes, file: str, version: Version) -> bool:
        """Whether a file has these contents; once it has, it is read again where its version is another."""
        if self._equal.get(file) == version and not self.exchange.coarse:
            return True
        if self._read(file) != data:
            return False
        self._equal[file] = version
        return True

    def _read(self, file: str) -> bytes | None:
        try:
            return self.exchange.read(file, MAX_BYTES)
        except FileNotFoundError:
            return None
        except (OSError, InputError) as error:
            self.wrong.append(f"{file}: {error}")
            return None

    def _listed(self, names: Iterable[str], *, everywhere: bool = False) -> dict[str, Version]:
        """Return the members' files in these members' places, or in all."""
        found: dict[str, Version] = {}
        for place in dict.fromkeys((*map(place_of, names), *(self._places() if everywhere else ()))):
            try:
                listed = self.exchange.list(place + MEMBERS)
            except FileNotFoundError:
                continue
            except (OSError, InputError) as error:
                self.wrong.append(f"{place}{MEMBERS}: {error}")
                continue
            found |= {f"{place}{MEMBERS}{name}": version for name, version in listed.items()}
        return found

    def _places(self) -> list[str]:
        return sorted(name for name in self.exchange.list("") if name.endswith("/"))

    def _first_files(self) -> Iterator[Members]:
        for place in self._places():
            if (first := _after(Members(()), self._read(f"{place}{MEMBERS}1.json"))) is not None:
                yield first


def _of_version(listed: Iterable[str], version: int) -> list[str]:
    return [file for file in listed if file.endswith(f"/{version}.json")]


def _after(members: Members, data: bytes | None, *, signed: bool = True) -> Members | None:
    """Return the consortium with a next version; None for what is none."""
    try:
        return None if data is None else members.newer(data, signed=signed)
    except KeysError:
        return None


def _fork(version: int, files: Iterable[str]) -> str:
    return (
        f"{' and '.join(files)}: several coordinators have signed a version {version} of the members' file, each "
        "another one: one of them makes the next version, which settles it; or remove the one that is not meant"
    )
