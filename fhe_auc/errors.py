"""The home of the public errors for scripts; inside the package they are imported from `fhe_auc.base.errors`."""

from fhe_auc.base.errors import EvaluationError, FheAucError, InputError, UndefinedAucError

__all__ = ["EvaluationError", "FheAucError", "InputError", "UndefinedAucError"]
