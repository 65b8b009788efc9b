#!/usr/bin/env bash
# flwr 1.41.0: SecAgg+ (SecAggPlusWorkflow) clips every number that it adds to the range from -8 to 8, unless told
# otherwise. Counts of 100 and 250 go in, 8 and 8 come out. Nothing is logged, and no error is raised.
#
# The default suits weights of a model. Who takes the workflow for a secure sum of counts gets a plausible, wrong sum;
# a larger clipping_range costs precision instead, as 2^22 levels are spread over it.
# Why it matters: peers who compute an AUC of federated counts by SecAgg+ have to set both numbers.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check flwr==1.41.0
"$folder/venv/bin/python" - <<'PY'
import inspect

import numpy as np
from flwr.common.secure_aggregation.quantization import dequantize, quantize
from flwr.server.workflow import SecAggPlusWorkflow

defaults = {name: each.default for name, each in inspect.signature(SecAggPlusWorkflow.__init__).parameters.items()}
clip, levels = defaults["clipping_range"], defaults["quantization_range"]
back = dequantize(quantize([np.array([3.0, 100.0, 250.0])], clip, levels), clip, levels)[0]
print(f"clipping_range {clip}, {levels:,} levels: 3, 100, 250 become {back.tolist()}")
assert clip == 8.0 and back.tolist() == [3.0, 8.0, 8.0]
wide = dequantize(quantize([np.array([3.0, 100.0, 250.0])], 1e6, levels), 1e6, levels)[0]
print(f"clipping_range 1,000,000: {wide.tolist()}")
assert not np.array_equal(wide, np.round(wide))
PY
