"""How far added noise outweighs what it hides: the defaults and limits that all encrypted protocols share."""

from fhe_auc.base.errors import CapacityError

DEFAULT_FLOODING_BITS = 40
DEFAULT_SMUDGING_BITS = 40

_MIN_BITS, _MAX_BITS = 30, 80


def check_smudging(joint_keys: bool, smudging_bits: int) -> None:
    """Raise `CapacityError` unless smudging has 30 to 80 bits with joint keys, and 0 without, where there is none."""
    if joint_keys:
        check_bits("smudging_bits", smudging_bits)
    elif smudging_bits:
        raise CapacityError("only partial decryptions under joint keys are smudged: smudging_bits must be 0")


def check_bits(name: str, bits: int) -> None:
    """Raise `CapacityError` for noise that hides nothing, or more than any plan has room for: outside 30 to 80 bits."""
    if not _MIN_BITS <= bits <= _MAX_BITS:
        raise CapacityError(f"{name} must lie between {_MIN_BITS} and {_MAX_BITS}, got {bits}")
