"""mutants.py: each of these weaker protocols must make a proof fail; run it after `make proofs`.

A theorem that holds of a protocol with a hole would say nothing of ours.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

PROOFS = Path(__file__).resolve().parent


class Mutant(NamedTuple):
    weakness: str
    file: str
    text: str
    instead: str


_OTHERS = "u ib - (blinders mu ib.1 (val ib.2)).[val alpha]"
_PASSES = "[forall p, forall s, (polynomial c s).[val (a p)] == expected"
_TURN = "aggregator (shown (submitted y verdicts) y) verdicts."
_DECIDED = "\\sum_j weights_of j * vanishing (wires j) == zero_in_calls.[z] * quotient_at."
MUTANTS = (
    Mutant("a tag is rho - w", "Authenticators", "(rho ij - w ij) / val alpha]", "rho ij - w ij]"),
    Mutant("the last blinder hangs on u alone", "Authenticators", f"({_OTHERS})", "(u ib)"),
    Mutant("no u in the last blinder", "Authenticators", f"({_OTHERS})", f"(0{_OTHERS.removeprefix('u ib')})"),
    Mutant("a polynomial has one value more", "Session", "(degree (f s)) (decr", "(degree (f s)).+1 (decr"),
    Mutant("one prime that passes is enough", "Session", _PASSES, _PASSES.replace("forall p", "exists p")),
    Mutant("who has not submitted may be counted", "Game", "(counting c \\subset D) && ", "true && "),
    Mutant("the aggregator sees what is not sent yet", "Game", _TURN, "aggregator y verdicts."),
    Mutant("last blinders are known beforehand", "Session", "if ib.1 \\in D then last", "if ib.1 \\in setT then last"),
    Mutant("tags are known beforehand", "Vectors", "if iq.1 \\in D then y", "if iq.1 \\in setT then y"),
    Mutant("groups share parties", "Game", " && [disjoint evaluating c & before].", "."),
    Mutant("groups of any size", "Game", "(least (kind c) <= #|evaluating c|)%N && ", ""),
    Mutant("both tags have the same weights", "Forms", "\\sum_j r (q, j) *", "\\sum_j r (head q (enum Q), j) *"),
    Mutant("tags without pads", "Vectors", "iq.2 + k.2 iq]).", "iq.2])."),
    Mutant("one pad for all parties' tags", "Vectors", "iq.2 + k.2 iq]).", "iq.2 + k.2 (head iq.1 (enum I), iq.2)])."),
    Mutant("entries may be twice as large", "Vectors", "(t./2 %/ #|I|)%N%:Z.  (*", "(t %/ #|I|)%N%:Z.  (*"),
    Mutant("T is too small for D", "Analysis", "Difference _ _ => 2 * most_pairs", "Difference _ _ => most_pairs"),
    Mutant(
        "T is too small for squares", "Analysis", "OneLabel _ _ _ _ => max_rows ^ 2", "OneLabel _ _ _ _ => most_pairs"
    ),
    Mutant("T is too small for rows", "Analysis", "Rows _ _ => #|I| * max_rows", "Rows _ _ => max_rows"),
    Mutant("all primes are room for a sum of few", "Analysis", "< T (primes_of takes_sum t s)", "< T t"),
    Mutant("merged counts are of all bins", "Analysis", "(merge i == k)%:Z", "1"),
    Mutant("merged counts that are not sent are zero", "Analysis", "else neighbours j (val j').", "else 0."),
    Mutant("a prime lacks entries of its sums", "Analysis", "weighs (sum_of (kind s)) j -> there", "sent p j -> there"),
    Mutant("T is too small for Q10", "Analysis", "(4 * max_rows ^ 3 %/ 27)%N", "(max_rows ^ 3 %/ 27)%N"),
    Mutant("T has no room for a sign", "Analysis", "2 * (scale ^ 2 * most_cubic)", "scale ^ 2 * most_cubic"),
    Mutant("Q10 is read around zero", "Analysis", "Squares _ _ _ | Rows _ _ => 0", "Rows _ _ => 0"),
    Mutant(
        "more rows than max_rows are shown",
        "Analysis",
        "(rows_of_class c) <= max_rows%:Z",
        "(rows_of_class c) <= (T t)%:Z",
    ),
    Mutant("a gadget without the digit 0", "Inputs", "\\prod_(v < b) (a - v%:R)", "\\prod_(1 <= v < b) (a - v%:R)"),
    Mutant(
        "one call without luck is luck", "Inputs", "[forall c, in_call r i c == 0]", "[exists c, in_call r i c == 0]"
    ),
    Mutant("all proofs have one proof's weights", "Inputs", "(x (c, j))) i.", "(x (c, j))) (head i (enum N))."),
    Mutant("wires have no weights", "Inputs", "r (i, j) *: gadget (wire s j)", "gadget (wire s j)"),
    Mutant("nobody looks at the query point", "Inputs", _DECIDED, "true."),
    Mutant("any quotient fits", "Inputs", _DECIDED, _DECIDED.replace("zero_in_calls.[z] * ", "")),
    Mutant(
        "a call is not looked at", "Inputs", "\\prod_c ('X - (node c)", "\\prod_(c in behead (enum C)) ('X - (node c)"
    ),
    Mutant("quotients by a value more", "Inputs", "(#|Q| + #|C| = most.+1)", "(#|Q| + #|C| = most.+2)"),
    Mutant("the degree of the wires is too low", "Inputs", "(b * (#|C| + #|N|).-1)", "(b * #|C|)"),
    Mutant("points that differ are independent", "Inputs", "spare := (#|T|.+1 - #|N|)", "spare := (#|T|)"),
    Mutant(
        "a quotient's value in a call", "Inputs", "at_points_away : forall q c, at_points q != node c", "unused : true"
    ),
    Mutant("a query in a call", "Inputs", "(outside_calls : forall m c, z m != node c)", "(_ : true)"),
    Mutant("two queries at one point", "Inputs", "(distinct : injective z)", "(_ : true)"),
    Mutant("no seeds", "Inputs", "inr m => s (j, m)", "inr m => 0"),
    Mutant("one seed for all proofs", "Inputs", "inr m => s (j, m)", "inr m => s (j, head m (enum N))"),
    Mutant("constants of any size", "Inputs", "(constant + \\sum_w (plus", "(\\sum_w (plus"),
    Mutant("numbers wrap around", "Inputs", "(plus w + minus w) * b ^ B w", "b ^ B w"),
    Mutant("multiples count once", "Inputs", "(plus w + minus w) * b", "((0 < plus w) + (0 < minus w)) * b"),
)


def refuted_at(mutant: Mutant) -> str:
    """Return which proof fails, and where; empty where none does."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(PROOFS, Path(folder) / "proofs"))
        path = copy / f"{mutant.file}.v"
        source = path.read_text(encoding="utf-8")
        if (times := source.count(mutant.text)) != 1:
            sys.exit(f"{path.name} has {mutant.text!r} {times} times, not once: mend this list")
        path.write_text(source.replace(mutant.text, mutant.instead), encoding="utf-8")
        run = subprocess.run(["make", "-f", "CoqMakefile"], cwd=copy, capture_output=True, text=True, check=False)  # noqa: S607
        found = re.search(r'File "\./(\w+)\.v", line (\d+)', run.stderr)
        if not run.returncode:
            return ""
        if found is None:
            sys.exit(run.stderr)
        before = (copy / f"{found[1]}.v").read_text(encoding="utf-8").splitlines()[: int(found[2])]
        (*_, name) = (line.split()[1] for line in before if line.startswith(("Lemma", "Theorem", "Definition")))
        return f"{found[1]}.v:{found[2]}, {name}"


if __name__ == "__main__":
    missed = 0
    for each in MUTANTS:
        where = refuted_at(each)
        missed += not where
        print(f"{each.weakness:<40} {where or 'NO PROOF FAILS'}", flush=True)
    sys.exit(f"{missed} of {len(MUTANTS)} weaker protocols are proved, too" if missed else 0)
