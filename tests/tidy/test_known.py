"""What is known to be wrong with the house only gets less: see known.py."""

import ast

import pytest
from tidy import declarations, folders, known, words


def test_nothing_is_worse_than_what_is_stored_and_nothing_better() -> None:
    found = list(known.differences(known.known(), known.actual()))
    assert not found, "\n".join(found)


def test_figures_may_neither_rise_nor_be_kept_when_they_have_fallen() -> None:
    stored = {"words": {"broker": 5, "cli": 3}, "dead": {}}
    assert list(known.differences(stored, {"words": {"broker": 5, "cli": 3}, "dead": {}})) == []
    assert list(known.differences(stored, {"words": {"broker": 6, "cli": 1}, "dead": {"f": 1}})) == [
        "words: broker rose from 5 to 6",
        "words: cli fell from 3 to 1; `make ratchet` stores that",
        "dead: f rose from 0 to 1",
    ]


def test_only_what_has_fallen_is_stored() -> None:
    stored = {"words": {"broker": 5, "cli": 3, "raft": 2}, "dead": {}}
    found = {"words": {"broker": 6, "cli": 1}, "dead": {"f": 1}}
    assert known.lowered(stored, found) == {"words": {"broker": 5, "cli": 1}, "dead": {}}


# -- words


@pytest.mark.parametrize(
    "text",
    [
        "Returns what is there.",
        "Whoever asks gets it",
        "the leader is told",
        "it goes on",
        "what a replica is to be",
        "has come to be so",
        "is not read any more",
        "lost for good",
        "after so many",
        "it stops by itself",
        "a line that goes\n    # on here",
        "Who leads is told.",
        "This is for who uses lograft",
        '"""Who cannot be reached."""',
    ],
)
def test_words_that_hide_who_acts_are_counted(text: str) -> None:
    assert words.count(text)


@pytest.mark.parametrize(
    "text", ["an operator who deletes a topic", "for goods", "The leader tells its followers.", "ongoing", "anymore_x"]
)
def test_plain_words_are_not_counted(text: str) -> None:
    assert not words.count(text)


# -- folders


def sources(**modules: str) -> dict[str, ast.Module]:
    return {path.replace("__", "/") + ".py": ast.parse(source) for path, source in modules.items()}


def test_cycles_between_folders_are_found_whatever_imports_are_for() -> None:
    trees = sources(
        a__x="from lograft.b.y import f",
        b__y="def g():\n    import lograft.c.z",
        c__z="if TYPE_CHECKING:\n    from lograft.a import x",
        d__w="from lograft.a.x import f\nfrom lograft.d.v import g",
        d__v="from lograft.d.w import f",
    )
    assert list(folders.cyclic(folders.imports_between(trees))) == ["a -> b", "b -> c", "c -> a"]


def test_a_folder_of_more_than_twenty_modules_is_crowded() -> None:
    paths = [f"a/m{number}.py" for number in range(20)]
    assert folders.crowded([*paths, "a/__init__.py", "a/b/m.py"]) == {}
    assert folders.crowded([*paths, "a/n.py"]) == {"a": 21}


# -- declarations

DECLARATIONS = """
LIMIT = 3
OTHER: int = 4

class Log:
    def read(self): ...
    @property
    def size(self): ...
    def __len__(self): ...

@group.command()
def registered(): ...

async def follow(): ...

class Refused(ServerError): ...
"""


def test_what_nothing_names_is_dead() -> None:
    def dead(*others: str) -> list[str]:
        return list(declarations.dead([ast.parse(DECLARATIONS)], declarations.identifiers([DECLARATIONS, *others])))

    assert dead() == ["LIMIT", "OTHER", "Log", "Log.read", "Log.size", "follow"]
    assert dead("Log().read(LIMIT)", "as OTHER says, `follow`", "size") == []
    assert dead("read_all, LIMITS") == ["LIMIT", "OTHER", "Log", "Log.read", "Log.size", "follow"]
