"""What a lying aggregator may try, by name; each is played on real ciphertexts and on the plaintext algebra.

`fhe_auc_benchmarks.attacks.blinded_auc.simulated` plays them on the numbers that ciphertexts hold, millions of times;
`fhe_auc_benchmarks.attacks.blinded_auc.ciphertexts` on ciphertexts; `fhe_auc_benchmarks.attacks.blinded_auc.bounds` computes what luck may reach.
"""

from __future__ import annotations

from dataclasses import dataclass

HARM = 0.001
"""An accepted AUC this far from the honest one counts as an attack that passed."""


@dataclass(frozen=True)
class Strategy:
    """One way of lying.

    Attributes
    ----------
    name : str
        As on the command line.
    description : str
        What the aggregator does.
    tunable : bool
        Whether it has a free parameter, for which the best value is searched.
    """

    name: str
    description: str
    tunable: bool = False


@dataclass(frozen=True)
class Outcome:
    """What came of a strategy: trials = passed + harmless + all that were refused.

    Attributes
    ----------
    trials : int
    passed : int
        A party accepted an AUC that is wrong by `HARM` or more.
    changed : int
        The result was not an honest one, whether it was refused or not.
    harmless : int
        A party accepted, and the AUC was right, or wrong by less than `HARM`.
    refused : dict of str to int
        How many trials each check refused, by the check's name.
    """

    trials: int
    passed: int
    changed: int
    harmless: int
    refused: dict[str, int]


STRATEGIES = (
    Strategy("scale-num", "multiply num' of every execution by a constant", tunable=True),
    Strategy("scale-den", "multiply den' of every execution by a constant", tunable=True),
    Strategy(
        "scale-all", "multiply all totals by a constant (changes nothing: r is the aggregator's own)", tunable=True
    ),
    Strategy("add-polynomial", "add a polynomial of per-class sums such as ΣX·Y, ΣX², ΣY² to num'", tunable=True),
    Strategy("scale-but-guessed", "scale X at all positions but those guessed to be the extra element's", tunable=True),
    Strategy("add-constant", "add a constant to num' of every execution", tunable=True),
    Strategy("drop-party", "leave one party's submission out of the sum"),
    Strategy("count-twice", "add one party's submission twice"),
    Strategy("replay-session", "replace a party's submission by the one it sent in another session"),
    Strategy("replace-with-zero", "replace a party's submission by an encryption of zero"),
    Strategy("replace-with-counts", "replace a party's submission by an encryption of made-up counts"),
    Strategy("zero-slots", "set random positions to zero before the product", tunable=True),
    Strategy("scale-slots", "scale random positions before the product", tunable=True),
    Strategy("shift-bins", "multiply X by Y of the neighbouring position", tunable=True),
    Strategy("swap-executions", "exchange the classes of two executions"),
    Strategy("stop-rotations", "leave out the last rotations, so that slots hold partial sums", tunable=True),
    Strategy("chosen-values", "return an encryption of chosen totals, computed without the submissions", tunable=True),
    Strategy("earlier-result", "return an earlier session's result"),
    Strategy("other-subset", "return the result over some of the parties only"),
    Strategy("flip-bytes", "flip bytes of the result"),
)
"""In the order of the printed table."""

NAMES = tuple(strategy.name for strategy in STRATEGIES)
