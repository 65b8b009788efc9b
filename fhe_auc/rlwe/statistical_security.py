"""How far added noise outweighs what it hides: what encrypted protocols share."""

from fhe_auc.base.errors import CapacityError

DEFAULT_SMUDGING_BITS = 40

_MIN_BITS, _MAX_BITS = 30, 80


def check_smudging(joint_keys: bool, smudging_bits: int) -> None:
    """Raise `CapacityError` unless smudging has 30 to 80 bits with joint keys, and 0 without, where there is none.

    Fewer bits hide nothing, and no plan has room for more.
    """
    if not joint_keys:
        if smudging_bits:
            raise CapacityError("only partial decryptions under joint keys are smudged: smudging_bits must be 0")
    elif not _MIN_BITS <= smudging_bits <= _MAX_BITS:
        raise CapacityError(f"smudging_bits must lie between {_MIN_BITS} and {_MAX_BITS}, got {smudging_bits}")
