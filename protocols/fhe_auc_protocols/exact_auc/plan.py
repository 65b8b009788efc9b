"""The plan of an exact AUC as it stands in a manifest, and what it says to people and programs."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import msgspec

from fhe_auc.base import quantities
from fhe_auc.session.plan import (
    Parameter,
    Terms,
    describe_download,
    describe_flooding,
    describe_key_parts,
    describe_ring,
    describe_smudging,
    describe_upload,
    ring_as_dict,
)
from fhe_auc_protocols.exact_auc.message_sizes import ExactSizes


class ExactPlan(ExactSizes, frozen=True):
    """Everything public that parties and aggregator must agree on for an exact encrypted AUC; errors as its bases."""

    kind: ClassVar[str] = "exact sums"

    def describe(self) -> list[Parameter]:
        """Return the parameters with their reasons."""
        parameters = self.parameters
        product = "products of ciphertexts" if self.joint_keys else "a plaintext times a ciphertext"
        rows = [
            *([] if self.privacy is None else self.privacy.describe()),
            *describe_ring(
                parameters,
                f"the smallest whose modulus takes {product}, and its flooding; N slots a ciphertext",
                "the room for noise, which is what hides",
            ),
            Parameter(
                "plaintext primes",
                f"{self.primes} of {min(parameters.plain_moduli).bit_length()} bits",
                "as many as tell every sum of {max_rows:,} rows (--max-rows) from every other",
            ),
            Parameter(
                "numbers of a sketch",
                f"{self.computed.sketch.size:,}",
                f"rows of each label in {self.thresholds:,} bins"
                + ("" if self.analysis.is_plain else ", for each model and group")
                + (", twice as many with their authenticators" if self.authenticated else ""),
            ),
            describe_flooding(math.floor(self.flooding_margin), -self.flooding_margin),
        ]
        if (soundness := self.soundness(self.parties)) is not None:
            why = "chance for the aggregator in a session, proved, where all must submit"
            rows.append(Parameter("a lie passes", f"< {quantities.chance_text(soundness)}", why))
        if not self.joint_keys:
            number = f"{self.layout.ciphertexts * self.primes}"
            return [
                *rows,
                Parameter("opening, ciphertexts", number, "made by who has the key, once"),
                describe_upload(self, "its padded sketch"),
                describe_download(self),
            ]
        return [
            *rows,
            Parameter("ciphertexts", f"{self.blocks}", "both factors of every product, for each prime"),
            describe_upload(self, "all ciphertexts; their random halves do not travel"),
            describe_download(self),
            describe_smudging(math.floor(self.smudging_margin)),
            describe_key_parts(quantities.bytes_text(self.key_bytes)),
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return the parameters as plain data."""
        return {
            **ring_as_dict(self, smudging_bits=self.smudging_margin),
            "key_bytes": self.key_bytes,
            "plain_moduli": list(self.parameters.plain_moduli),
            "sketch_entries": self.computed.sketch.size,
            "products": self.layout.ciphertexts,
            "kept_primes": self.kept,
            "result_bytes": self.result_bytes,
            "flooding_bits": self.flooding_margin,
            "soundness": self.soundness(self.parties),
        }

    def terms(self) -> Terms:
        """Return what the session's parties agree to."""
        analysis = self.analysis
        released = f"{len(self.release.sums):,} numbers"
        if analysis.is_plain:
            released = ", ".join(each.name for each in self.release.sums)
        private = [] if self.privacy is None else self.privacy.describe()
        noisy = ", each with noise" if private else ""
        by = "; ".join(f"{each.name}: {', '.join(each.levels)}" for each in analysis.by)
        asked = [
            ("models", ", ".join(analysis.models), "columns of scores", len(analysis.models) > 1),
            ("classes", ", ".join(analysis.classes), "labels, one a model", bool(analysis.classes)),
            ("groups", by, "columns, and all levels that they may have", bool(by)),
            ("across groups", "yes", "positives of each against negatives of each other", analysis.cross_groups),
            (
                "sums over sites",
                "yes",
                "who knows all sites with rows of both labels but two can work out these two's AUCs",
                analysis.heterogeneity,
            ),
            (
                "average precision",
                "yes",
                "by each site's result of the session before; and how many sites have other rows than then",
                self.average_precision,
            ),
        ]
        return Terms(
            [
                *(Parameter(*row) for *row, there in asked if there),
                *(
                    []
                    if private
                    else [Parameter("rows", f"at most {self.max_rows:,}", "of all parties together, a public bound")]
                ),
                Parameter(
                    "released", released, f"as integers{noisy}, to the parties and to nobody else; the AUC is of these"
                ),
                *private,
            ],
            {
                "max_rows": self.max_rows,
                "analysis": msgspec.to_builtins(analysis),
                "average_precision": self.average_precision,
            },
        )
