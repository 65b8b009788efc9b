"""Analyses: what is estimated, which questions are refused, and in what order levels come."""

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fhe_auc.base.errors import InputError
from fhe_auc.base.names import names_in, quoted
from fhe_auc.question.analysis import ACROSS, ALL, PLAIN, Analysis, Cell, Questions, Variable, levels_of
from tests.support.several import AGE, CLASSES, SEX

HUNDRED = Variable("v", tuple(f"level {k}" for k in range(100)))
SIXTEEN = tuple(f"m{k}" for k in range(16))


def test_estimates_are_of_all_rows_then_of_each_level_model_by_model_and_across_groups_of_ordered_pairs() -> None:
    analysis = Analysis(models=("x", "y"), by=(SEX, AGE))
    groups = [ALL, "sex: F", "sex: M", "age: 0-39", "age: 40-64", "age: 65+"]
    assert [each.name for each in analysis.groups] == groups
    assert [(each.model, analysis.group_name(each)) for each in analysis.contrasts] == [
        (model, each.name) for model in (0, 1) for each in analysis.groups
    ]
    assert {(each.positives.classes, each.negatives.classes) for each in analysis.contrasts} == {((1,), (0,))}
    assert analysis.comparisons == ((0, 1),)
    analysis = Analysis(by=(SEX, AGE), cross_groups=True)
    across = [analysis.group_name(each) for each in analysis.contrasts if each.label == ACROSS]
    assert across == [
        *("sex: F, M", "sex: M, F", "age: 0-39, 40-64", "age: 0-39, 65+", "age: 40-64, 0-39", "age: 40-64, 65+"),
        *("age: 65+, 0-39", "age: 65+, 40-64"),
    ]


def test_classes_are_told_each_from_the_others_and_pair_by_pair_by_the_score_of_the_positives() -> None:
    found = [(each.label, each.model, each.positives, each.negatives, each.interval) for each in CLASSES.contrasts]
    assert found[:3] == [
        ("a from others", 0, Cell(0, (0,)), Cell(0, (1, 2)), True),
        ("b from others", 1, Cell(0, (1,)), Cell(0, (0, 2)), True),
        ("c from others", 2, Cell(0, (2,)), Cell(0, (0, 1)), True),
    ]
    assert [label for label, *_ in found[3:]] == [f"{x} from {y}" for x in "abc" for y in "abc" if x != y]
    assert (found[3], CLASSES.comparisons) == (("a from b", 0, Cell(0, (0,)), Cell(0, (1,)), False), ())


def test_what_is_no_analysis_or_too_many_estimates_is_refused_by_name() -> None:
    for changes, shown in [
        ({"models": ()}, "model: 1 to 16 names are possible, got 0"),
        ({"models": (*SIXTEEN, "more")}, "got 17"),
        ({"models": ("a", "a")}, "model 'a' is there twice"),
        ({"models": ("[red]\x1b[31m",)}, "printable characters"),
        ({"models": ("right\u202eleft",)}, "printable characters"),
        ({"models": (" a",)}, "no blanks at its ends"),
        ({"models": ("a" * 41,)}, "1 to 40"),
        ({"by": (SEX, SEX)}, "variable 'sex' is there twice"),
        ({"by": (Variable("sex", ("F",)),)}, "level of 'sex': 2 to 100 names are possible, got 1"),
        ({"by": (Variable("sex", ("F", "")),)}, "level of 'sex' ''"),
        ({"by": (Variable("sex", ("F", "M\n")),)}, "printable characters"),
        ({"by": (HUNDRED, SEX)}, "at most 100 groups, got 102"),
        ({"models": ("a", "b"), "classes": ("x", "y")}, "class: 3 to 20 names"),
        ({"models": ("a", "b"), "classes": ("x", "y", "z")}, "3 classes needs a column of scores, got 2"),
        ({"models": ("a", "b", "c"), "classes": ("x", "y", "z"), "by": (SEX,), "cross_groups": True}, "for labels 0"),
        ({"cross_groups": True}, "need a variable"),
        ({"min_cell": 0}, "between 1 and 1000, got 0"),
        ({"min_cell": 1001}, "got 1001"),
    ]:
        with pytest.raises(InputError, match=shown) as caught:
            Analysis(**changes)
        assert str(caught.value).isprintable()
    for asked, told in [
        ({"cross_groups": True}, "would be 160,016 AUCs.*leave out those across groups"),
        ({"classes": SIXTEEN}, "would be 25,856 AUCs.*fewer models, groups or classes$"),
    ]:
        # They are counted, not made: that took half a minute.
        with pytest.raises(InputError, match=told):
            Analysis(models=SIXTEEN, by=(HUNDRED,), **asked)


def test_levels_come_in_the_order_of_numbers_and_alphabet_and_one_model_is_plain() -> None:
    questions = Questions(score_columns=("x",), by={"age": (), "sex": ("M", "F")})
    found = questions.analysis({"age": ["5-9", "10-14", "<5", None, "other", "5-9"]})
    assert found.by == (Variable("age", ("<5", "5-9", "10-14", "other")), Variable("sex", ("M", "F")))
    assert Questions.of(found, "x").analysis({}) == found
    assert Questions(score_columns=("risk",)).analysis({}) == PLAIN
    assert PLAIN.is_plain
    assert not any(each.is_plain for each in (CLASSES, Analysis(models=("x", "y")), Analysis(by=(SEX,))))


def test_columns_that_are_no_groups_and_levels_that_nobody_can_see_are_refused() -> None:
    for levels, shown in [
        (["F", "F", None], "column 'sex' has one level, 'F': there is nothing to group by"),
        ([str(k / 7) for k in range(21)], "column 'sex' has 21 different values: .*cut numbers into bands first"),
        ([None], "level of 'sex': 2 to 100 names are possible, got 0"),
        ([], "got 0"),
    ]:
        with pytest.raises(InputError, match=shown):
            Questions(score_columns=("x",), by={"sex": ()}).analysis({"sex": levels})
    with pytest.raises(InputError, match=r"which levels does 'sex' have.* --by sex=LEVEL,LEVEL"):
        Questions(score_columns=("x",), by={"sex": ()}).analysis({})
    with pytest.raises(InputError, match="there is no column of scores"):
        Questions(score_columns=()).analysis({})


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b", ("a", "b")),
        (" a , b ", ("a", "b")),
        ('"Risk, 30 days","Risk, 1 year"', ("Risk, 30 days", "Risk, 1 year")),
        ('"Risk, 30 days", b , "c=d"', ("Risk, 30 days", "b", "c=d")),
        ('the "old" score,"5"" pipe"', ('the "old" score', '5" pipe')),
        ('5" pipe,b', ('5" pipe', "b")),
        ('"unfinished,b', ('"unfinished', "b")),
        ("age>=65,sex=male", ("age>=65", "sex=male")),
        ("a,,b,", ("a", "", "b", "")),
        ('""', ("",)),
        ("", ("",)),
    ],
)
def test_names_stand_between_commas_and_what_has_one_within_quotes(text: str, names: tuple[str, ...]) -> None:
    assert names_in(text) == names


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("sex", {"sex": ()}),
        ("sex,band", {"sex": (), "band": ()}),
        ("sex=F,M", {"sex": ("F", "M")}),
        (" sex = F , M ", {"sex": ("F", "M")}),
        ('"age>=65"', {"age>=65": ()}),
        ('"age>=65"=0,1', {"age>=65": ("0", "1")}),
        ('"age>=65","sex=male",ward', {"age>=65": (), "sex=male": (), "ward": ()}),
        ('"Ward, first"', {"Ward, first": ()}),
        (' "Ward, first" = "A, left" , B', {"Ward, first": ("A, left", "B")}),
        ('band=<=5,">5, <9",≥9', {"band": ("<=5", ">5, <9", "≥9")}),
        ('"a ""b"", c"=x,y', {'a "b", c': ("x", "y")}),
        ("age>=65", {"age>": ("65",)}),
    ],
)
def test_levels_come_after_an_equals_sign_that_is_not_within_quotes(text: str, levels: dict[str, Any]) -> None:
    assert levels_of([text]) == levels
    assert levels_of([text, "other"]) == {**levels, "other": ()}


NAMES = st.text(st.sampled_from("ab ,=\"'é"), min_size=1).filter(lambda name: name == name.strip())


@given(st.lists(NAMES, min_size=1, unique=True), NAMES)
def test_names_that_are_quoted_are_read_back(names: list[str], column: str) -> None:
    text = ",".join(map(quoted, names))
    assert names_in(text) == tuple(names)
    assert levels_of([text]) == dict.fromkeys(names, ())
    assert levels_of([f"{quoted(column)}={text}"]) == {column: tuple(names)}


def test_an_example_names_a_column_in_a_form_that_works_in_a_shell() -> None:
    for name in ("sex", "age>=65", "Ward, first", "it's", 'the "old"=new', "Töd lich"):
        with pytest.raises(InputError, match="all are named: --by ") as refused:
            Questions(score_columns=("x",), by={name: ()}).analysis({})
        _, example = shlex.split(str(refused.value).partition("are named: ")[2])
        assert levels_of([example]) == {name: ("LEVEL", "LEVEL")}


def test_one_level_may_be_a_part_of_a_name_and_the_remedy_is_told() -> None:
    with pytest.raises(InputError, match=r"^level of 'age>': 2 to .*one column: --by '\"age>=65\"', within quotes\)$"):
        Questions(score_columns=("x",), by=levels_of(["age>=65"])).analysis({})
