"""The folder where tests call ``fhe-auc keys``: who has which store and credential in it, and their passphrase."""

PASSPHRASE = "correct horse battery staple"  # noqa: S105
SMALL = ("--thresholds", "uniform:16", "--backend", "tenseal")
SITES = ("north", "south")
ADDER = "coordinator"
CREDENTIALS = tuple(f"{name}/{name}.credential" for name in SITES)
TRUST = ("--authority", "authority/ca.pem", "--revocation-list", "authority/ca.crl")


def at(name: str) -> tuple[str, str]:
    """The option for somebody's key store."""
    return "--store", f"{name}/store"


NORTH, SOUTH, AUTHORITY = map(at, (*SITES, "authority"))
SESSION = ("session", *CREDENTIALS, *NORTH)
"""A session of both sites, made by north."""
