"""What one version of an encryption library has made, others read; `tests.support.library_versions` keeps it.

Keys of CKKS need their own library, in any version; those of BFV need none.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fhe_auc import ckks
from fhe_auc.base.errors import BackendUnavailableError
from tests.support.library_versions import FILE, agree, digests, objects_of, parameters_of, ternary_of, values_for
from tests.support.schemes import SCHEMES

ROOT = Path(__file__).parents[3]
STORED = json.loads(FILE.read_text("utf-8"))

CASES = [
    pytest.param(
        version,
        name,
        id=f"{version} {name}",
        marks=[pytest.mark.openfhe] if name == "ckks" and version.startswith("openfhe") else [],
    )
    for version in STORED
    for name in SCHEMES
]


def made_by(version: str, name: str) -> tuple[dict[str, bytes], Any]:
    """All that this version wrote, to the byte, and its parameters.

    Other bytes: either the library or the code writes otherwise, or draws more. Where only that was meant, keep all
    versions' anew.
    """
    stored, scheme = STORED[version][name], SCHEMES[name]
    parameters = parameters_of(scheme, version.split()[0])
    objects = objects_of(scheme, parameters, ternary_of(stored["key"]))
    assert digests(objects) == stored["sha256"]
    return objects, parameters


def test_each_version_that_sites_are_told_to_install_is_stored() -> None:
    locked = (ROOT / "constraints.txt").read_text("utf-8")
    assert set(STORED) == {" ".join(each) for each in re.findall(r"^(tenseal|openfhe)==([\d.]+)", locked, re.MULTILINE)}
    assert len({each[name]["key"] for each in STORED.values() for name in SCHEMES}) == 2 * len(STORED) == 8


@pytest.mark.parametrize(("version", "name"), CASES)
def test_key_submission_and_result_of_each_version_are_read_with_the_library_that_is_here(
    version: str, name: str
) -> None:
    (objects, parameters), scheme = made_by(version, name), SCHEMES[name]
    secret, public = scheme.library.load_secret(objects["secret"]), scheme.library.load_public(objects["public"])
    assert secret.fingerprint == public.fingerprint
    assert secret.parameters == parameters
    here = scheme.encrypt(secret, values_for(scheme))
    results = [objects["result"]]
    for submission in (objects["submission"], here):
        results.append(scheme.computed(public, scheme.read(public, submission)))
    assert len(here) == len(objects["submission"])
    for result in results:
        assert len(result) == len(objects["result"])
        assert agree(scheme, scheme.decrypt(secret, result))


@pytest.mark.parametrize(("version", "name"), CASES)
def test_keys_that_are_made_here_are_of_the_layout_of_each_version(version: str, name: str) -> None:
    """So whoever has that version reads them: coefficients modulo the same primes, in the same order."""
    (objects, parameters), scheme = made_by(version, name), SCHEMES[name]
    if parameters.backend not in ckks.available_backends():
        with pytest.raises(BackendUnavailableError):
            scheme.library.generate(parameters)
        return
    stored, pair = scheme.library.load_secret(objects["secret"]), scheme.library.generate(parameters)
    assert pair.secret.ciphertext_shape == stored.ciphertext_shape
    assert [len(context.to_bytes()) for context in pair] == [len(objects[part]) for part in ("public", "secret")]
    assert not (pair.secret.secret_words == stored.secret_words).all()
