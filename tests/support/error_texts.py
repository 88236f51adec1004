"""The errors that the command line can tell, found in its source: every text that an exception is made with."""

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from support.transcript_chapters import ROOT

_MODULES = (
    *sorted((ROOT / "cli").glob("**/*.py")),
    *sorted((ROOT / "clients" / "local").glob("l*.py")),
    ROOT / "clients" / "admin" / "planning" / "reassignment_plan.py",
)
# Beside the making of exceptions: what these are called with is told later, as it is.
_TELLING = ("Refusal", "_complain", "_say", "wrong")
_UNSAID = (AssertionError, OSError, KeyboardInterrupt, RecursionError)


@dataclass(frozen=True, slots=True)
class ErrorText:
    """`pieces`: what is said, without what differs from time to time, which is between them."""

    place: str
    pieces: tuple[str, ...]

    @property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(".*".join(map(re.escape, self.pieces)))

    def __str__(self) -> str:
        return f"{self.place}: {'…'.join(self.pieces)}"


def error_texts() -> list[ErrorText]:
    return [text for path in _MODULES for text in _texts_of(path)]


def _texts_of(path: Path) -> Iterator[ErrorText]:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    module = importlib.import_module(f"lograft.{name}")
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and _tells(node.func, module):
            # The place of a problem comes before it in some, and a remedy after it in others.
            said = [pieces for argument in node.args if (pieces := _pieces(argument)) is not None][:1]
            yield from (ErrorText(f"{path.relative_to(ROOT)}:{node.lineno}", pieces) for pieces in said)


def _tells(called: ast.expr, module: ModuleType) -> bool:
    if isinstance(called, ast.Attribute):
        owner = getattr(module, called.value.id, None) if isinstance(called.value, ast.Name) else None
        return called.attr in _TELLING or _is_error(getattr(owner, called.attr, None))
    return isinstance(called, ast.Name) and (called.id in _TELLING or _is_error(getattr(module, called.id, None)))


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Exception) and not issubclass(value, _UNSAID)


def _pieces(argument: ast.expr) -> tuple[str, ...] | None:
    """None for what is no text of its own: another's, handed on."""
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        return (argument.value,)
    if not isinstance(argument, ast.JoinedStr):
        return None
    pieces = [""]
    for value in argument.values:
        if isinstance(value, ast.Constant):
            pieces[-1] += value.value  # type: ignore[operator]
        else:
            pieces.append("")
    return tuple(pieces) if any(piece.strip(" :;,'") for piece in pieces) else None
