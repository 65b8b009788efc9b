"""Train a model on 78 clinics with Flower, and judge it by one encrypted AUC instead of an average of 78 site AUCs.

Needs the extra: pip install '.[simulation]' in a clone. The clinics are simulated; app/ would run across real ones.
Run it with: .venv/bin/python examples/flower_training/run.py
"""

import json
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from fhe_auc import datasets, outcomes, registry, thresholds
from fhe_auc.flower.runtime import Runtime
from fhe_auc.protocol import Request
from fhe_auc.site_state import site_storage

APP = Path(__file__).parent / "app"


def main() -> None:
    clinics = datasets.load("covid-clinics")
    names = tuple(clinic.name for clinic in clinics)
    # The key holder's part; across real sites `fhe-auc keys session`, and `fhe-auc keys open` at each site.
    session = registry.evaluating("semi-honest").prepare(Request(parties=names, thresholds=thresholds.hybrid(1000)))

    with Runtime(secured=False, app=APP) as runtime:
        folder = runtime.folder / "session"
        folder.mkdir(mode=0o700)
        made = site_storage().local_sites(session, folder, {})
        sites = []
        for number, clinic in enumerate(clinics):
            rows, results = folder / f"rows-{number}.npz", folder / f"results-{number}"
            np.savez(rows, y_true=clinic.y_true, y_score=clinic.y_score)
            sites.append({**made.sites[clinic.name], "data": str(rows), "results": str(results)})
        runtime.start_simulating(sites)
        average = folder / "average.json"
        config = {**made.aggregator, "average": str(average), "round-timeout": 120.0}
        runtime.run(config, virtual_sites=len(sites))
        averaged = json.loads(average.read_text())
        (written,) = Path(sites[0]["results"]).iterdir()
        evaluation = outcomes.read(written)

    # To check, and only because these rows are public: pool them.
    y_true, y_score = (np.concatenate([getattr(clinic, name) for clinic in clinics]) for name in ("y_true", "y_score"))
    pooled = roc_auc_score(y_true, y_score)  # training moves scores, and keeps their order
    one_class = sum(len(set(clinic.y_true.tolist())) == 1 for clinic in clinics)
    print(f"AUC of all rows                 {pooled:.6f}")
    print(f"encrypted, as every site has it {evaluation.auc:.6f}, binning error ≤ {evaluation.binning_error:.6f}")
    print(f"average of the sites' AUCs      {averaged:.6f}  off by {abs(averaged - pooled):.6f}")
    print(f"                                {one_class} of {len(clinics)} clinics have one class only, and no AUC")
    if abs(evaluation.auc - pooled) > evaluation.binning_error + evaluation.numerical_error:
        raise SystemExit("the AUC of all rows lies outside the interval")


if __name__ == "__main__":
    main()
