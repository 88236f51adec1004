"""Declarations that nothing names: functions, classes, methods, and constants of modules."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPECIAL = re.compile(r"__\w+__")

# A decorator of these leaves a function one that must be called by its name; others (click's, say) register it.
_PLAIN_DECORATORS = (
    "abstractmethod", "asynccontextmanager", "cache", "cached_property", "classmethod", "contextmanager", "dataclass",
    "final", "lru_cache", "overload", "override", "property", "runtime_checkable", "setter", "staticmethod",
)  # fmt: skip

# What a library calls: Spark, click, asyncio.
_CALLED_FROM_OUTSIDE = (
    "_timer_handle_cancelled", "default_exception_handler", "format_commands", "getDefaultReadLimit", "get_debug",
    "reportLatestOffset", "run_in_executor", "set_debug", "shutdown_default_executor", "streamReader",
)  # fmt: skip
# Classes of these are found by what they stand for, not by their names.
_REGISTERING_BASES = ("ServerError",)


def identifiers(texts: Iterable[str]) -> Counter[str]:
    """Count each identifier, in comments, strings and prose, too."""
    return Counter(name for text in texts for name in _IDENTIFIER.findall(text))


def declared(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the name of each declaration, and the qualified name."""
    yield from _declared(tree.body, "")


def _declared(body: list[ast.stmt], owner: str) -> Iterator[tuple[str, str]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            if not any(ast.unparse(base) in _REGISTERING_BASES for base in node.bases):
                yield node.name, f"{owner}{node.name}"
            yield from _declared(node.body, f"{owner}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if all(_decorator(each) in _PLAIN_DECORATORS for each in node.decorator_list):
                yield node.name, f"{owner}{node.name}"
        elif isinstance(node, ast.If | ast.Try):
            yield from _declared(node.body, owner)
        elif not owner:
            targets = node.targets if isinstance(node, ast.Assign) else []
            targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
            yield from ((each.id, each.id) for each in targets if isinstance(each, ast.Name))


def _decorator(node: ast.expr) -> str:
    return ast.unparse(node.func if isinstance(node, ast.Call) else node).split(".")[-1]


def dead(modules: Iterable[ast.Module], named: Counter[str]) -> dict[str, int]:
    """Return the declarations that are named nowhere but where they are declared. `named`: how often each identifier
    occurs, declarations included."""
    declarations = [each for tree in modules for each in declared(tree)]
    times = Counter(name for name, _ in declarations)
    unnamed = (
        qualified
        for name, qualified in declarations
        if named[name] <= times[name] and name not in _CALLED_FROM_OUTSIDE and not _SPECIAL.fullmatch(name)
    )
    return dict(Counter(unnamed))
