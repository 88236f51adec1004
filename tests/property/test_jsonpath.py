"""Templates of `-o jsonpath`: any that is written out is read back the same, and no text does harm."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lograft.cli.common.jsonpath import (
    OPERATORS,
    Every,
    Everywhere,
    Field,
    Filter,
    Literal,
    Path,
    Range,
    Slice,
    Step,
    Template,
    Text,
    Union,
    render,
)
from lograft.cli.common.jsonpath_parser import BadTemplate, parse_template

TOPICS = {
    "kind": "List",
    "items": [
        {"metadata": {"name": "a"}, "spec": {"partitions": 6, "config": {"retention.ms": "5"}}, "leader": None},
        {"metadata": {"name": "b"}, "spec": {"partitions": 1, "config": {}}, "leader": 0, "internal": True},
        {"metadata": {"name": "c"}, "spec": {"partitions": 1}, "isr": [1, 2, 3]},
    ],
}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{.kind}", "List"),
        (".kind", "List"),
        ("{.items[*].metadata.name}", "a b c"),
        ("{.items[].metadata.name}", None),
        ("{.items[0].metadata.name}, {.items[-1].metadata.name}", "a, c"),
        ("{.items[-2:].metadata.name}", "b c"),
        ("{.items[0:3:2].metadata.name}", "a c"),
        ("{.items[0,2].metadata.name}", "a c"),
        ("{.items[7].metadata.name}{.nothing.at.all}", ""),
        ("{..name}", "a b c"),
        ("{.items[0].spec.config['retention.ms']}", "5"),
        (r"{.items[0].spec.config.retention\.ms}", "5"),
        ("{.items[0]['metadata.name', 'spec.partitions']}", "a 6"),
        ('{.items[?(@.spec.partitions==1)].metadata["name"]}', "b c"),
        ("{.items[?(@.spec.partitions > 1)].metadata.name}", "a"),
        ("{.items[?(@.spec.partitions!=1)].metadata.name}", "a"),
        ("{.items[?(@.metadata.name>='b')].metadata.name}", "b c"),
        ("{.items[?(@.metadata.name>=1)].metadata.name}", ""),
        ("{.items[?(@.leader)].metadata.name}", "a b"),
        ("{.items[?(@.leader==null)].metadata.name}", "a"),
        ("{.items[?(@.leader==0)].metadata.name}", "b"),
        ("{.items[?(@.leader==false)].metadata.name}", ""),
        ("{.items[?(@.internal==true)].metadata.name}", "b"),
        ("{.items[?(@.internal==1)].metadata.name}", ""),
        ("{.items[?(1.5 < @.spec.partitions)].metadata.name}", "a"),
        ("{.items[0].leader}", "null"),
        ("{.items[2].isr}", "[1,2,3]"),
        ("{.items[2].isr[*]}", "1 2 3"),
        ("{.items[1].metadata}", '{"name":"b"}'),
        (r'{range .items[*]}{.metadata.name}{"\t"}{.spec.partitions}{"\n"}{end}', "a\t6\nb\t1\nc\t1\n"),
        ("{range .items[*]}{$.kind}/{@.metadata.name} {end}", "List/a List/b List/c "),
        ("{range .items[2]}{range .isr[*]}<{@}>{end}{end}", "<1><2><3>"),
        ("no braces", "no braces"),
        ("", ""),
    ],
)
def test_what_kubectl_would_print(template: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(BadTemplate):
            parse_template(template)
    else:
        assert render(parse_template(template), TOPICS) == expected


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("{.a", "{ without }, at character 1"),
        ("x{items}", "expected a path.*, at character 3"),
        ("{.a[b]}", "expected a number.*, at character 5"),
        ("{.a[0}", "expected ']', found '}', at character 6"),
        ("{range .a}x", "{range ...} without {end}, at character 1"),
        ("x{end}", "{end} without {range ...}.*, at character 2"),
        ("{'x}", "unclosed ', at character 2"),
        ("{.a[?(@.b=1)]}", "expected '\\)', found '=', at character 10"),
        ("{.a[0:1:0]}", "the step of a slice.*, at character 5"),
        ("{.a.}", "expected a field name, at character 5"),
        ("{range .a}" * 60, "more than 50 nested ranges"),
        ("{.a[?(@.a" + "[?(@.a" * 60, "more than 50 nested filters"),
    ],
)
def test_what_is_no_template_is_told_where(template: str, complaint: str) -> None:
    with pytest.raises(BadTemplate, match=complaint):
        parse_template(template)


# -- any template

names = st.text(min_size=1, max_size=5)
quoted_names = st.builds(Field, names, st.just(True))
integers = st.integers(-(10**9), 10**9)
ends = st.none() | integers
slices = st.builds(Slice, ends, ends, st.none() | st.integers(1, 9)) | st.sampled_from([Slice(0, 1), Slice(-1, None)])
elements = st.one_of(quoted_names, slices)
unions = st.builds(Union, st.lists(elements, min_size=2, max_size=3).map(tuple))
literals = st.builds(Literal, st.none() | st.booleans() | integers | st.sampled_from([0.5, -2.25]) | st.text())
plain_steps = st.one_of(st.builds(Field, names), quoted_names, st.just(Every()), slices, unions)


def paths_of(steps: st.SearchStrategy[Any]) -> st.SearchStrategy[Path]:
    def joined(steps: list[Any], is_absolute: bool) -> Path:
        flat = [each for step in steps for each in (step if isinstance(step, tuple) else (step,))]
        return Path(tuple(flat), is_absolute)

    # `..` is always followed by what is looked for.
    deep = st.tuples(st.just(Everywhere()), steps)
    return st.builds(joined, st.lists(steps | deep, max_size=4), st.booleans())


plain_paths = paths_of(plain_steps)
sides = plain_paths | literals
filters = st.builds(Filter, sides, st.sampled_from(OPERATORS), sides) | st.builds(Filter, sides)
paths = paths_of(plain_steps | filters)
parts = st.builds(Text, st.text(min_size=1)) | paths
templates: st.SearchStrategy[Template] = st.recursive(
    st.lists(parts, max_size=4).map(tuple),
    lambda inner: st.lists(parts | st.builds(Range, paths, inner), max_size=3).map(tuple),
    max_leaves=6,
)


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def written(template: Template) -> str:
    parts = []
    for part in template:
        match part:
            case Text(text):
                parts.append("{" + quoted(text) + "}")
            case Path():
                parts.append("{" + written_path(part) + "}")
            case Range(path, body):
                parts.append("{range " + written_path(path) + "}" + written(body) + "{end}")
    return "".join(parts)


def written_path(path: Path) -> str:
    text = "$" if path.is_absolute else "@"
    for at, step in enumerate(path.steps):
        is_after_descent = at > 0 and isinstance(path.steps[at - 1], Everywhere)
        if isinstance(step, Field) and not step.is_quoted:
            text += ("" if is_after_descent else ".") + "".join("\\" + letter for letter in step.name)
        elif isinstance(step, Everywhere):
            text += ".."
        else:
            text += f"[{written_step(step)}]"
    return text


def written_step(step: Step) -> str:
    match step:
        case Field(name):
            return quoted(name)
        case Slice(start, end, by):
            return ":".join("" if each is None else str(each) for each in (start, end, by))
        case Union(steps):
            return " , ".join(map(written_step, steps))
        case Filter(left, operator, right):
            return f"?( {written_side(left)} {operator}{'' if right is None else written_side(right)})"
        case _:
            return "*"


def written_side(side: Path | Literal) -> str:
    if isinstance(side, Path):
        return written_path(side)
    return quoted(side.value) if isinstance(side.value, str) else json.dumps(side.value)


contents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(templates)
def test_a_template_that_is_written_out_is_read_back(template: Template) -> None:
    assert parse_template(written(template)) == template


@given(templates, contents)
def test_any_template_can_be_filled_from_anything(template: Template, content: Any) -> None:
    assert isinstance(render(template, content), str)


@given(st.text(alphabet="{}[]().'\"\\*?@$:,=!<> ab01-\nrangeend") | st.text())
def test_any_text_is_a_template_or_is_refused_with_a_place(text: str) -> None:
    complaint = ""
    try:
        filled = render(parse_template(text), {"a": [0, {"b": 1}]})
    except BadTemplate as error:
        filled, complaint = "", str(error)
    assert isinstance(filled, str)
    assert "at character " in complaint or not complaint
