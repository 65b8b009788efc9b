"""Real multi-site test scores that come with the package; provenance and licences in ``data/README.md``."""

from importlib import resources

from fhe_auc.base.errors import InputError
from fhe_auc.question.analysis import Questions
from fhe_auc.rows.party_data import PartyData
from fhe_auc.rows.party_files import read_for

NAMES = ("covid-clinics", "credit-default")  # the bundled data sets


def load(name: str) -> list[PartyData]:
    """Load a bundled data set, one party a site, in order of first appearance; raise `InputError` for another name.

    ``covid-clinics``: COVID-19 test results at a children's hospital's 78 clinics; 7,612 rows, 433 positive, AUC
    0.787280518. 55 clinics hold one class only, the smallest one row.
    ``credit-default``: late credit-card payments in six age bands; 15,000 rows, 3,409 positive, AUC 0.634743961.

    >>> len(load("covid-clinics"))
    78
    """
    if name not in NAMES:
        raise InputError(f"there is no data set {name!r}; there are {', '.join(NAMES)}")
    resource = resources.files("fhe_auc") / "data" / f"{name.replace('-', '_')}.npz"
    with resources.as_file(resource) as file:
        return read_for(Questions(score_columns=("y_score",)), file, site_column="site")[0]
