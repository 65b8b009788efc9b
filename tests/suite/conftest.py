"""All that is played here may be of the protocol that does nothing."""

from collections.abc import Iterator

import pytest

from tests.support.nothing import installed


@pytest.fixture(scope="module", autouse=True)
def _nothing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with installed(tmp_path_factory.mktemp("installed")):
        yield
