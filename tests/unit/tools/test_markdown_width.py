"""`make lint` holds Markdown to 100 columns."""

from types import ModuleType

import pytest
from support.tools import load_tool

WORDS = "word " * 30


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_tool("markdown_width")


@pytest.mark.parametrize(
    ("text", "wide"),
    [
        ("x" * 100, []),
        ("x" * 101, [1]),
        (f"short\n{WORDS}\nshort\n{WORDS}", [2, 4]),
        (f"| {WORDS} |", []),
        (f"{WORDS} [a link](https://example.com)", []),
        (f"[name]: docs/{'x' * 100}.md", []),
        (f"```\n{WORDS}\n```\n{WORDS}", [4]),
        (f"````\n```\n{WORDS}\n```\n````\n{WORDS}", [6]),
        (f"- in a list:\n  ```python\n  {WORDS}\n  ```\n{WORDS}", [5]),
    ],
)
def test_code_tables_and_links_may_be_longer(tool: ModuleType, text: str, wide: list[int]) -> None:
    assert list(tool.wide_lines(text)) == wide


def test_the_list_of_those_not_wrapped_yet_only_gets_shorter(tool: ModuleType) -> None:
    assert list(tool.findings({"old.md": [3], "new.md": [1, 2]}, ["old.md"])) == [
        "new.md:1: longer than 100 columns",
        "new.md:2: longer than 100 columns",
    ]
    assert list(tool.findings({}, ["old.md"])) == ["old.md is wrapped now: remove it from tools/wide_markdown.txt"]
