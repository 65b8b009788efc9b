#!/usr/bin/env bash
# nibabel 5.4.2: a NIfTI file is written in the type that its header names, not in that of the array. Probabilities
# saved with the header of a mask of bytes, Nifti1Image(risks, mask.affine, mask.header), are rounded to at most 256
# values. No warning; the file is read back as floating point.
#
# Seen: 125,000 voxels of which 1 % are a lesion, probabilities from 4e-12 to .27: 125,000 values before and 64 after,
# and 98 % of the voxels tied at the lowest one; AUC .86 before and .62 after.
# Why it matters: taking the header over keeps position and size right, as one should. The voxels' AUC is that of a
# rounded model. Call set_data_dtype(float32), or give dtype= to Nifti1Image.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile --disable-pip-version-check nibabel==5.4.2 numpy==2.4.6 \
  scikit-learn==1.9.1 scipy==1.17.1
cd "$folder"
"$folder/venv/bin/python" -W error - <<'PY'
import nibabel
import numpy as np
from sklearn.metrics import roc_auc_score

rng = np.random.default_rng(1)
lesion = rng.random((50, 50, 50)) < 0.01
risks = 1 / (1 + np.exp(14 - 3 * rng.normal(1.5 * lesion)))
nibabel.save(nibabel.Nifti1Image(lesion.astype(np.uint8), np.eye(4)), "mask.nii")
mask = nibabel.load("mask.nii")
nibabel.save(nibabel.Nifti1Image(risks, mask.affine, mask.header), "risks.nii")
nibabel.save(nibabel.Nifti1Image(risks, mask.affine, mask.header, dtype=np.float64), "as_they_are.nii")
read = nibabel.load("risks.nii").get_fdata()
assert (nibabel.load("as_they_are.nii").get_fdata() == risks).all()
values, tied = [len(np.unique(each)) for each in (risks, read)], (read == read.min()).mean()
aucs = [float(roc_auc_score(lesion.ravel(), each.ravel())) for each in (risks, read)]
print(f"{risks.min():.1e} to {risks.max():.2f}: values {values}, {tied:.0%} tied at the lowest")
print("AUC %.2f before, %.2f after" % tuple(aucs))
assert values[0] > 120_000 and values[1] <= 256 and aucs[1] < aucs[0] - 0.1
PY
