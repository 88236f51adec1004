"""Import cycles between folders, and folders with too many modules."""

import ast
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import PurePosixPath

from tidy import rules

MODULES_IN_A_FOLDER = 20

Edge = tuple[str, str]


def imports_between(modules: Mapping[str, ast.Module]) -> dict[Edge, None]:
    """Return which folder imports from which; imports under TYPE_CHECKING and in functions count, too. `modules`: trees
    by path."""
    folders = {_dotted(path): str(PurePosixPath(path).parent) for path in modules}
    edges: dict[Edge, None] = {}
    for path, tree in modules.items():
        here = str(PurePosixPath(path).parent)
        for _, module, name in rules.imported_names(tree):
            there = folders.get(f"{module}.{name}", folders.get(module))
            if there is not None and there != here:
                edges[here, there] = None
    return edges


def _dotted(path: str) -> str:
    parts = PurePosixPath(path).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(parts if parts[0] == "lograft" else ("lograft", *parts))


def cyclic(edges: Collection[Edge]) -> dict[str, int]:
    """Return the edges that are part of a cycle, one each."""
    reached = {source: _reached(edges, source) for source, _ in edges}
    return {f"{source} -> {target}": 1 for source, target in edges if source in reached.get(target, ())}


def _reached(edges: Iterable[Edge], start: str) -> dict[str, None]:
    targets: dict[str, list[str]] = {}
    for source, target in edges:
        targets.setdefault(source, []).append(target)
    found: dict[str, None] = {}
    to_visit = [start]
    while to_visit:
        for target in targets.get(to_visit.pop(), ()):
            if target not in found:
                found[target] = None
                to_visit.append(target)
    return found


def crowded(paths: Iterable[str]) -> dict[str, int]:
    """Return the folders with more than 20 modules, and how many each has."""
    counts = Counter(str(PurePosixPath(path).parent) for path in paths if not path.endswith("__init__.py"))
    return {folder: count for folder, count in counts.items() if count > MODULES_IN_A_FOLDER}
