"""The folder where tests call ``fhe-auc``: who has which folder of its own in it."""

SITES = ("north", "south")
ADDER = "coordinator"


def at(name: str) -> tuple[str, ...]:
    """The options for somebody's key store."""
    return "--store", f"{name}/store", "--passphrase-file", f"{name}/passphrase"


NORTH, SOUTH = map(at, SITES)
