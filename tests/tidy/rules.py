"""What a module imports, calls and iterates over, read from its syntax tree."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

ROOMS = ["proto", "rpc", "runtime", "storage", "raft", "metadata", "broker", "clients", "cli", "spark", "chaos"]

# The import table of the house: each room, and the rooms it may import.
MAY_IMPORT = {
    "proto": [],
    "runtime": ["proto"],
    "storage": ["runtime"],
    "raft": ["runtime", "proto"],
    "rpc": ["proto", "runtime"],
    "metadata": ["raft", "rpc", "runtime", "proto"],
    "broker": ["metadata", "raft", "storage", "rpc", "runtime", "proto"],
    "clients": ["proto", "rpc", "runtime", "storage"],
    "cli": ["clients", "proto", "rpc", "runtime", "storage"],
    "spark": ["clients", "proto", "rpc", "runtime", "storage"],
    "chaos": ["broker", "metadata", "raft", "storage", "rpc", "runtime", "proto", "clients", "cli"],
}

# Of storage, the clients see the batch codec and the dump, not the log.
CLIENTS_MAY_SEE_OF_STORAGE = ["batch", "errors", "inspect"]

# Clocks, dice, threads and sockets come from the runtime alone.
OUTSIDE_WORLD = [
    "concurrent", "fcntl", "grpc", "multiprocessing", "queue", "random", "secrets", "select", "selectors", "socket",
    "subprocess", "threading", "time", "uuid",
]  # fmt: skip
HARMLESS_NAMES = {("uuid", "UUID"), ("concurrent.futures", "Future")}  # types, not sources of ids or threads
OUTSIDE_CALLS = [
    "os.urandom", "datetime.now", "datetime.utcnow", "datetime.today", "date.today", "datetime.datetime.now",
    "datetime.datetime.utcnow", "datetime.date.today", "asyncio.to_thread", "asyncio.open_connection",
    "asyncio.start_server",
]  # fmt: skip
OUTSIDE_METHODS = ["run_in_executor"]

# A module whose docstring says "Pure." at the end of a paragraph decides without effects: no IO, no clock, no await, no
# log, and no order that depends on hashing.
_PURE = re.compile(r"\bPure\.$", re.MULTILINE)
IMPURE_IMPORTS = ["asyncio", "logging", "os", "structlog", "io", "pathlib", "shutil", "tempfile"]


@dataclass(frozen=True)
class Finding:
    """Something the rules forbid, and where."""

    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


def modules() -> Iterator[tuple[str, str, ast.Module]]:
    """Every module of every room: the room, its path, its tree."""
    for room in ROOMS:
        for path in sorted((ROOT / room).glob("**/*.py")):
            if not path.name.endswith("_pb2.py"):
                yield room, str(path.relative_to(ROOT)), ast.parse(path.read_text())


def imported_names(tree: ast.Module) -> Iterator[tuple[int, str, str | None]]:
    """(line, module, name) of each import; the name is None for `import module`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, None
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "absolute imports only"
            for alias in node.names:
                yield node.lineno, node.module or "", alias.name


def check_import_table(room: str, path: str, tree: ast.Module) -> Iterator[Finding]:
    for line, module, name in imported_names(tree):
        full = f"{module}.{name}" if name is not None else module
        if full.split(".")[0] != "lograft":
            continue
        parts = [*full.split("."), "", ""]
        other, inner = parts[1], parts[2]
        if other not in ROOMS:
            yield Finding(path, line, f"{room}/ may not import the public face ({full})")
        elif other != room and other not in MAY_IMPORT[room]:
            yield Finding(path, line, f"{room}/ may not import {other}/ ({full})")
        elif room in ("clients", "cli", "spark") and other == "storage" and inner not in CLIENTS_MAY_SEE_OF_STORAGE:
            yield Finding(path, line, f"{room}/ may see only the batch codec and the dump of storage/ ({full})")


def check_outside_world(room: str, path: str, tree: ast.Module) -> Iterator[Finding]:
    if room == "runtime":
        return
    for line, module, name in imported_names(tree):
        if module.split(".")[0] in OUTSIDE_WORLD and (module, name) not in HARMLESS_NAMES:
            yield Finding(path, line, f"{module} belongs to runtime/")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in OUTSIDE_CALLS or called.split(".")[-1] in OUTSIDE_METHODS:
                yield Finding(path, node.lineno, f"{called} belongs to runtime/")


def is_called_pure(tree: ast.Module) -> bool:
    return _PURE.search(ast.get_docstring(tree) or "") is not None


def check_purity(path: str, tree: ast.Module) -> Iterator[Finding]:
    for line, module, _ in imported_names(tree):
        if module.split(".")[0] in IMPURE_IMPORTS:
            yield Finding(path, line, f"a pure module imports {module}")
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncFunctionDef | ast.Await):
            yield Finding(path, node.lineno, "a pure module awaits")
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("open", "print", "input"):
            yield Finding(path, node.lineno, f"a pure module calls {ast.unparse(node.func)}")
    yield from check_set_iteration(path, tree)


def check_set_iteration(path: str, tree: ast.Module) -> Iterator[Finding]:
    """Iterating over a set gives an order that differs from run to run."""
    sets = _names_of_sets(tree)
    for node in ast.walk(tree):
        iterated: list[ast.expr] = []
        if isinstance(node, ast.For):
            iterated = [node.iter]
        elif isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp):
            iterated = [generator.iter for generator in node.generators]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("list", "tuple", "iter", "enumerate", "next"):
            iterated = node.args[:1]
        for expression in iterated:
            if _is_set(expression, sets):
                yield Finding(path, expression.lineno, f"iterates over a set: {ast.unparse(expression)}")


def _is_set(node: ast.expr, sets: list[str]) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("set", "frozenset"):
        return True
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.Sub | ast.BitXor):
        return _is_set(node.left, sets) or _is_set(node.right, sets)
    return ast.unparse(node) in sets


def _names_of_sets(tree: ast.Module) -> list[str]:
    """Names and attributes that the module itself annotates or assigns as sets."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation is not None and _annotates_set(node.annotation):
            names.append(node.arg)
        elif isinstance(node, ast.AnnAssign) and _annotates_set(node.annotation):
            names += [ast.unparse(node.target), f"self.{ast.unparse(node.target)}"]
        elif isinstance(node, ast.Assign) and _is_set(node.value, []):
            names += [ast.unparse(target) for target in node.targets]
    return names


def _annotates_set(annotation: ast.expr) -> bool:
    return ast.unparse(annotation).strip("'\"").split("[")[0] in ("set", "frozenset", "AbstractSet", "Set")
