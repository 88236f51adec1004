"""Transcripts: documents with what a person types at a shell, and what is answered, line by line.

A block marked `console` has commands, each after `$ ` (and `> ` where it goes on), and below each what it wrote to
standard output and standard error; if it failed, `[exit N]` is the last line. In what is expected, `…` stands for
anything within a line, and a line of nothing else for any number of lines. After a command with the comment `# or the
like`, any number stands for any other, however wide: the documents show what there was, and not what stands for it.
Pure.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

ANYTHING = "…"
_LOOSE = "# or the like"
_BLOCK = re.compile(r"(^```console\n)(.*?)(^```$)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Step:
    """A command, and the lines that are expected of it."""

    command: str
    expected: tuple[str, ...]

    def accepts(self, answer: Sequence[str]) -> bool:
        if self.command.endswith(_LOOSE):
            return matches([_shape(line) for line in self.expected], [_shape(line) for line in answer])
        return matches(self.expected, answer)

    def written(self) -> str:
        first, *more = self.command.split("\n")
        return "\n".join([f"$ {first}", *(f"> {line}" for line in more), *self.expected]) + "\n"


def steps(document: str) -> list[Step]:
    return [step for block in _BLOCK.finditer(document) for step in _steps_of(block[2])]


def _steps_of(block: str) -> Iterator[Step]:
    command: list[str] = []
    expected: list[str] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            if command:
                yield Step("\n".join(command), tuple(expected))
            command, expected = [line[2:]], []
        elif line.startswith("> ") and not expected:
            command.append(line[2:])
        else:
            assert command, f"a block begins with a command, not with {line!r}"
            expected.append(line)
    if command:
        yield Step("\n".join(command), tuple(expected))


def with_answers(document: str, answer: Callable[[Step], Sequence[str]]) -> str:
    """The document with the lines that `answer` gives for each step."""

    def rewritten(block: re.Match[str]) -> str:
        told = [Step(step.command, tuple(answer(step))) for step in _steps_of(block[2])]
        return block[1] + "".join(step.written() for step in told) + block[3]

    return _BLOCK.sub(rewritten, document)


def _shape(line: str) -> str:
    return re.sub(r" +", " ", re.sub(r"\d+(\.\d+)?", "0", line))


def matches(expected: Sequence[str], actual: Sequence[str]) -> bool:
    if not expected:
        return not actual
    first, rest = expected[0], expected[1:]
    if first == ANYTHING:
        return any(matches(rest, actual[start:]) for start in range(len(actual) + 1))
    return bool(actual) and _matches_line(first, actual[0]) and matches(rest, actual[1:])


def _matches_line(expected: str, actual: str) -> bool:
    pattern = ".*".join(map(re.escape, expected.split(ANYTHING)))
    return re.fullmatch(pattern, actual) is not None
