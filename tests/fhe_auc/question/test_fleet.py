"""A fleet is known by the list of the files of its members' keys."""

import hashlib

import msgspec
import pytest

from fhe_auc.base.errors import DeserialisationError, InputError
from fhe_auc.base.serialise import decode, encode
from fhe_auc.question.fleet import Fleet, FleetList, KeyFile, Range

FILES = tuple(KeyFile(f"{number:03}.parquet", 5 + number, bytes([number] * 32)) for number in range(3))


def test_a_member_s_index_goes_on_from_file_to_file() -> None:
    listed = FleetList(FILES)
    assert listed.number == 18
    assert listed.ranges == tuple(
        Range(file.name, first, file.number, file.digest) for file, first in zip(FILES, (0, 5, 11), strict=True)
    )
    assert Fleet.of(listed, row_cap=20) == Fleet(18, hashlib.sha256(encode(FILES)).digest(), 20)


def test_a_list_of_other_files_is_not_the_fleet_s() -> None:
    fleet, listed = Fleet.of(FleetList(FILES), row_cap=20), FleetList(FILES)
    changed = msgspec.structs.replace(FILES[1], digest=bytes(32)), msgspec.structs.replace(FILES[1], number=7)
    others = [FleetList((FILES[0], each, FILES[2])) for each in changed] + [FleetList(FILES[:2])]
    assert fleet.found_in(others) is None
    assert fleet.found_in([*others, listed]) == listed


@pytest.mark.parametrize(
    "files",
    [
        FILES[::-1],
        (FILES[0], FILES[0]),
        *((KeyFile("0.parquet", number, bytes(32)),) for number in (0, 2**20 + 1)),
        (KeyFile("0.parquet", 1, bytes(31)),),
        *((KeyFile(name, 1, bytes(32)),) for name in ("../0.parquet", "A.parquet", "0")),
        tuple(KeyFile(f"{number:05}.parquet", 1, bytes(32)) for number in range(2**14 + 1)),
    ],
)
def test_what_cannot_be_a_list_is_refused_from_whomever_it_comes(files: tuple[KeyFile, ...]) -> None:
    with pytest.raises(InputError, match="a fleet has at most 16,384 files of keys, in the order of their names"):
        FleetList(files)
    with pytest.raises(DeserialisationError, match="a fleet has at most"):
        decode(encode((files,)), FleetList, "list")


@pytest.mark.parametrize(
    "fields", [{"members": 1}, {"members": 2**33}, {"keys": bytes(31)}, {"row_cap": 0}, {"row_cap": 2**41}]
)
def test_what_cannot_be_a_fleet_is_refused(fields: dict[str, int]) -> None:
    with pytest.raises(InputError):
        Fleet(**{"members": 2, "keys": bytes(32), "row_cap": 1, **fields})  # type: ignore[arg-type]
