#!/usr/bin/env bash
# NVIDIA FLARE 2.9.0: federated statistics round each site's part of the variance to four decimals before they add it
# up, and take the root afterwards. The more sites, the smaller the parts, and the more of them are 0.
#
# Seen: 20 sites with 1,000 risks each, evenly from 0 to 0.1, whose standard deviation is 0.029: FLARE says 0.0. The
# same rows at 3 sites: 0.03. Risks to 0.02 at 3 sites: 0.0, where 0.006 is right.
# Why it matters: a score looks constant, and is left out or standardised by 0. Means, rounded once, are right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check nvflare==2.9.0 pandas==2.3.3
"$folder/venv/bin/python" - <<'PY'
import numpy as np
import pandas as pd
from nvflare.app_common.app_constant import StatisticsConstants as Names
from nvflare.app_common.statistics.numeric_stats import get_global_stats
from nvflare.app_opt.statistics.df.df_core_statistics import DFStatisticsCore


class Site(DFStatisticsCore):
    def __init__(self, risks):
        super().__init__()
        self.data = {"test": pd.DataFrame({"risk": risks})}

    def initialize(self, *_):
        pass


def spread(risks, sites):
    parts = [Site(each) for each in np.array_split(risks, sites)]

    def told(of):
        return {f"site-{at}": {"test": {"risk": of(site)}} for at, site in enumerate(parts)}

    first = {
        Names.STATS_COUNT: told(lambda site: site.count("test", "risk")),
        Names.STATS_SUM: told(lambda site: site.sum("test", "risk")),
        Names.STATS_MEAN: {},
    }
    found = get_global_stats({}, first, Names.STATS_1st_STATISTICS, {})
    mean, rows = (found[name]["test"]["risk"] for name in (Names.STATS_MEAN, Names.STATS_COUNT))
    second = {
        Names.STATS_VAR: told(lambda site: site.variance_with_mean("test", "risk", mean, rows)),
        Names.STATS_STDDEV: {},
    }
    return float(get_global_stats(found, second, Names.STATS_2nd_STATISTICS, {})[Names.STATS_STDDEV]["test"]["risk"])


risks = np.random.default_rng(1).permutation(np.linspace(0, 0.1, 20_000))
found = [spread(risks, 20), spread(risks, 3), spread(risks / 5, 3)]
right = [round(float(np.std(each, ddof=1)), 3) for each in (risks, risks / 5)]
print(f"20 sites: {found[0]}, 3 sites: {found[1]}, right: {right[0]}")
print(f"risks a fifth as large, 3 sites: {found[2]}, right: {right[1]}")
assert found == [0.0, 0.03, 0.0] and right == [0.029, 0.006]
PY
