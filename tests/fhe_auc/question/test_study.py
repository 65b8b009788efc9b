"""What is evaluated: a file that says it badly is refused, with the name of the field, and no row passes over a cap."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fhe_auc.base.errors import DeserialisationError, InputError
from fhe_auc.base.serialise import decode, encode
from fhe_auc.question.study import Study

WORDS = {
    "model": "sepsis-net 2.1, sha256 9f2c",
    "outcome": "sepsis within 48 hours",
    "cohort": "adults in intensive care, København",
    "period": "2029",
}
TEXT = "\n".join(f'{name} = "{value}"' for name, value in WORDS.items())
CAPS = '\n[row-caps]\nnorth = 5000\n"St. Mary\'s" = 1\n'


def read(folder: Path, text: str | bytes) -> Study:
    path = folder / "study.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return Study.read(path)


def test_a_file_says_model_outcome_cohort_period_and_caps(tmp_path: Path) -> None:
    assert read(tmp_path, TEXT) == read(tmp_path, TEXT + "\n[row-caps]") == Study(**WORDS)
    assert read(tmp_path, TEXT + CAPS) == Study(**WORDS, row_caps={"north": 5000, "St. Mary's": 1})
    assert read(tmp_path, TEXT + "\nmost-away = 1" + CAPS).most_away == 1


@pytest.mark.parametrize(
    ("text", "named"),
    [
        *((TEXT.replace(f"{name} =", "# "), f"missing required field `{name}`") for name in WORDS),
        ('version = "2"\n' + TEXT, "unknown field `version`"),
        (TEXT + CAPS.replace("row-caps", "row_caps"), "unknown field `row_caps`"),
        (TEXT.replace('"2029"', "2029"), r"Expected `str`, got `int` - at `\$.period`"),
        (TEXT + CAPS.replace("5000", "true"), r"Expected `int`, got `bool` - at `\$.`?row-caps"),
        *(
            (TEXT + CAPS.replace("5000", cap), "the cap of 'north' must lie between")
            for cap in ("0", "-1", f"{2**40 + 1}")
        ),
        (TEXT + CAPS.replace("5000", "9" * 30), "row-caps"),
        (TEXT + "\nmost-away = -1", "most-away must lie between 0 and"),
        (TEXT + '\nmodel = "again"', "overwrite"),
        ("model = ", "[Ii]nvalid"),
        (TEXT.encode() + b"\n# \xff", "utf-8"),
    ],
)
def test_a_file_with_other_keys_or_values_is_refused_by_name(tmp_path: Path, text: str | bytes, named: str) -> None:
    with pytest.raises(InputError, match=rf"study\.toml': .*{named}"):
        read(tmp_path, text)


@pytest.mark.parametrize("name", WORDS)
def test_words_are_one_printable_line_of_at_most_300_characters(name: str) -> None:
    for text in ("", " ", "two\nlines", "two\u2028lines", "bell\a", "\u202eturned", "blank at the end ", "x" * 301):
        with pytest.raises(InputError, match=f"^{name} must be 1 to 300 printable characters"):
            Study(**{**WORDS, name: text})
    assert getattr(Study(**{**WORDS, name: "x" * 300}), name) == "x" * 300


@pytest.mark.parametrize(
    "changes",
    [*({name: "another"} for name in WORDS), {"row_caps": {"north": 4}}, {"model": "a", "row_caps": {}}],
    ids=lambda changes: " and ".join(changes),
)
def test_two_studies_differ_in_the_fields_that_differ(changes: dict[str, Any]) -> None:
    study = Study(**WORDS, row_caps={"north": 5})
    assert study.differing(msgspec.structs.replace(study)) == []
    assert study.differing(msgspec.structs.replace(study, **changes)) == [each.replace("_", "-") for each in changes]


def test_rows_up_to_the_cap_pass_and_the_largest_caps_survive_the_wire_in_any_order() -> None:
    study = Study(**WORDS, row_caps={"north": 5000})
    study.require_rows("north", 5000)
    study.require_rows("south", 10**9)
    with pytest.raises(InputError, match=r"^party 'north' has 5,001 rows, more than its cap in .*, 5,000$"):
        study.require_rows("north", 5001)
    study = Study(**WORDS, row_caps={"north": 2**40, "south": 1})
    turned = Study(**WORDS, row_caps={"south": 1, "north": 2**40})
    assert decode(encode(study), Study, "study") == study == turned
    assert encode(study) == encode(turned)


@pytest.mark.parametrize(
    ("every", "same", "next_one"),
    [
        ("", "2030-01-01T00:00", None),
        ("hour", "2030-05-01T12:59", "2030-05-01T13:00"),
        ("day", "2030-05-01T00:00", "2030-05-02T00:00"),
        ("week", "2030-05-05T23:59", "2030-05-06T00:00"),  # 1 May 2030 is a Wednesday
        ("month", "2030-05-31T23:59", "2030-06-01T00:00"),
    ],
)
def test_turns_are_of_utc_and_rise_by_one(every: str, same: str, next_one: str | None) -> None:
    study = Study(**WORDS, every=every)
    now, same_turn = (datetime.fromisoformat(f"{text}+00:00") for text in ("2030-05-01T12:00", same))
    assert study.turn(now) == study.turn(same_turn) == study.turn(now.astimezone(timezone(timedelta(hours=9))))
    if next_one is not None:
        assert study.turn(datetime.fromisoformat(f"{next_one}+00:00")) == study.turn(now) + 1


@pytest.mark.parametrize(
    ("name", "hostile"),
    [
        ("title", lambda text: text),
        ("label-column", lambda text: text),
        ("score-columns", lambda text: (text,)),
        ("by", lambda text: (f"sex={text}",)),
        ("options", lambda text: {"x": text}),
        ("options", lambda text: {text: 1}),
        ("row-caps", lambda text: {text: 1}),
    ],
)
@pytest.mark.parametrize("text", ["rows\x1b[2J", "rows\n  outcome  harmless", "\u202erows"])
def test_a_text_that_steers_a_terminal_or_makes_a_line_of_its_own_is_refused_with_its_entry(
    name: str, hostile: Callable[[str], Any], text: str
) -> None:
    """Else whoever makes a study could have others read another one; and results would be refused, a night late."""
    told = f"{name} must be printable text on one line"
    with pytest.raises(InputError, match=f"^{told}"):
        Study(**WORDS, **{name.replace("-", "_"): hostile(text)})
    with pytest.raises(DeserialisationError, match=told):  # from a maker that has not refused it
        decode(encode({**WORDS, name: hostile(text)}), Study, "study")


def test_columns_and_levels_with_commas_and_equals_signs_stand_within_quotes(tmp_path: Path) -> None:
    by = """by = ['"age>=65"=0,1', 'sex=F,M', '"Ward, first"="A, left",B']"""
    study = read(tmp_path, TEXT + "\n" + by)
    found = {variable.name: variable.levels for variable in study.analysis().by}
    assert found == {"age>=65": ("0", "1"), "sex": ("F", "M"), "Ward, first": ("A, left", "B")}
    assert study.other_columns == list(found)
    for text, told in (
        ("by = ['age>=65']", """--by '"age>=65"', within quotes"""),
        ("""by = ['"age>=65"']""", """all are named: '"age>=65"=LEVEL,LEVEL'"""),
    ):
        with pytest.raises(InputError, match=re.escape(told)):
            read(tmp_path, TEXT + "\n" + text).analysis()
