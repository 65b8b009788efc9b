"""Every error that this package raises on purpose.

All derive from `FheAucError`, so that a caller can catch the lot. The message is one line that names the culprit
and what to do; it never carries a score, a label count or key material of another party.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

Check: TypeAlias = Literal[
    "authenticator",  # the authenticator does not fit the result
    "denominator",  # a denominator is zero, or near it
    "echo",  # another party was given another result
    "equations",  # those of all executions disagree
    "executions",  # the AUCs of two runs disagree
    "finite",  # decrypted values are not finite
    "fraction",  # no fraction between 0 and 1 with a denominator in bounds
    "own rows",  # a party's own rows are not all in the sum
    "range",  # the AUC lies outside 0 … 1, or a noisy number beyond what rows and noise can give
    "redundancy",  # the redundant part of a denominator does not belong to it
    "rows",  # the parties have more rows than were agreed on
    "sums",  # there are too many sums, or too few
    "thresholds",  # the thresholds are not those that this party has found
    "unused slots",  # there are counts where none belong
]
"""What a party checks before it gives a number."""


class FheAucError(Exception):
    """Base class of all errors raised on purpose by fhe-auc."""


class Place(NamedTuple):
    """Where a row comes from, for messages; `file` and `line` (from 1) are None where there are none."""

    text: str
    file: str | None = None
    line: int | None = None


class InputError(FheAucError, ValueError):
    """A file, an array or an argument is not what it must be; the message names the party, the row and the value.

    `party`, `file`, `column` and `line` (from 1) say the same for programs; None where they are not known.
    """

    def __init__(
        self,
        message: str,
        *,
        party: str | None = None,
        file: str | None = None,
        line: int | None = None,
        column: str | None = None,
    ) -> None:
        super().__init__(message)
        self.party, self.file, self.line, self.column = party, file, line, column

    def within(self, place: str, *, file: str | None = None) -> InputError:
        """Return an error of this type that names the place first, and keeps what this one knows."""
        file = self.file or file
        return type(self)(f"{place}: {self}", party=self.party, file=file, line=self.line, column=self.column)


class CapacityError(InputError):
    """No parameter set with 128-bit security holds the stated workload at the stated precision."""


class BackendUnavailableError(InputError):
    """The encryption library asked for cannot be imported by this interpreter."""


class UnknownProtocolError(InputError):
    """No installed plug-in has that name."""


class EvaluationError(FheAucError):
    """The evaluation could not be finished; no number was released."""


class UndefinedAucError(EvaluationError):
    """The pooled rows hold one class only, so that there is no AUC."""


class UndefinedMetricError(EvaluationError):
    """The pooled rows give this metric no value: there are none."""


class TooFewPartiesError(EvaluationError):
    """Fewer parties submitted than the session's policy asks for."""


class ResultCheckError(EvaluationError):
    """The decrypted result fails a check (overflow, damage or a wrong key), so that no number is given.

    `check` is one of `Check`; None where the protocol has no name for it.
    """

    def __init__(self, message: str, *, check: Check | None = None) -> None:
        super().__init__(message)
        self.check = check


class VerificationError(ResultCheckError):
    """The decrypted result is not one that an honest aggregator would have computed; no number is given.

    The text says which check failed, as `check` does, and carries no number either, but that of rows that are too many.
    """


class DeserialisationError(FheAucError, ValueError):
    """Bytes received do not hold what they should: truncated, damaged, or made for something else.

    `field` is what did not match: "length", "format", "version", "checksum", "body", "payload", or a message's field.
    """

    def __init__(self, message: str, *, field: str = "payload") -> None:
        super().__init__(message)
        self.field = field


class MessageError(DeserialisationError):
    """A protocol message was refused; the text and `field` say what did not match."""
