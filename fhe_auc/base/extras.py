"""Libraries that only some uses need: an extra of the package installs them, and its absence is one sentence."""

from importlib.util import find_spec

from fhe_auc.base.errors import InputError

EXTRAS = {
    "benchmark": (("duckdb", "sklearn", "scipy", "psutil"), "attacks, comparisons and benchmarks"),
    "dask": (("distributed",), "schedulers of Dask's"),
    "dp": (("opendp", "scipy"), "protocols that add noise"),
    "files": (("pyreadstat", "python_calamine"), "files of SAS, SPSS, Stata and Excel"),
    "flare": (("nvflare",), "sessions over FLARE"),
    "flower": (("flwr",), "sessions over Flower"),
    "pdf": (("weasyprint",), "reports as PDF"),
    "plots": (("jinja2", "markupsafe", "matplotlib"), "figures and reports"),
    "sql": (("adbc_driver_postgresql", "arrow_odbc", "duckdb", "sqlalchemy"), "databases"),
    "simulation": (("flwr", "ray"), "simulations over Flower"),
}
"""By the extra's name: modules that it installs, and what needs them."""


def require(extra: str, *only: str) -> None:
    """Raise `InputError` where one of `EXTRAS` is not installed; the message has the command that installs it.

    `only` are the modules of it that are needed; all where none are named.
    """
    modules, what = EXTRAS[extra]
    missing = [module for module in only or modules if find_spec(module) is None]
    if missing:
        raise InputError(f"{what} need {' and '.join(missing)}: in a clone of fhe-auc, pip install '.[{extra}]'")
