"""Derive the synchronous clients from the awaitable ones; with --check only say what is stale.

For each client there are two files. In the generated one, each public method of the awaitable client is forwarded to
it on the loop's thread. In the other one, what a thread does differently is written by hand, but the signature and the
docstring of each method are copied from the awaitable client, too, and so is what the class's docstring says of
options. Both are committed.
"""

import argparse
import ast
import builtins
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).resolve().parent.parent

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Client:
    """`sources`: the files and classes whose public methods make the awaitable client `inner`. `generated` gets the
    class `class_name`, with the methods that `by_hand` does not have; `left_out` are for awaiting clients alone."""

    inner: str
    sources: tuple[tuple[str, str], ...]
    generated: str
    class_name: str
    by_hand: str
    left_out: frozenset[str]


CLIENTS = (
    Client(
        "clients.admin.aio_admin.Admin",
        (
            ("clients/admin/topic_admin.py", "TopicAdmin"),
            ("clients/admin/cluster_admin.py", "ClusterAdmin"),
            ("clients/admin/group_admin.py", "GroupAdmin"),
            ("clients/admin/waiting_admin.py", "WaitingAdmin"),
            ("clients/admin/retrying_calls.py", "AdminCalls"),
        ),
        "clients/admin/sync_admin_calls.py",
        "SyncAdminCalls",
        "clients/admin/sync_admin.py",
        frozenset({"start", "wait_until"}),
    ),
    Client(
        "clients.consumer.aio_consumer.Consumer",
        (
            ("clients/consumer/aio_group_consumer.py", "GroupConsumer"),
            ("clients/consumer/aio_consumer.py", "Consumer"),
        ),
        "clients/consumer/sync_consumer_calls.py",
        "SyncConsumerCalls",
        "clients/consumer/sync_consumer.py",
        frozenset({"start", "ready", "take_arrow", "give_back", "give_back_arrow"}),
    ),
    Client(
        "clients.producer.aio_producer.Producer",
        (("clients/producer/aio_producer.py", "Producer"),),
        "",
        "Producer",
        "clients/producer/sync_producer.py",
        frozenset({"start", "place", "refused", "when_progress", "buffered_bytes", "unsettled_records"}),
    ),
)


class Source:
    """A file: its text, its tree, and where the names in it come from."""

    def __init__(self, root: Path, path: str) -> None:
        self.module = "lograft." + path.removesuffix(".py").replace("/", ".")
        self.text = (root / path).read_text()
        self.tree = ast.parse(self.text)
        self.imports: dict[str, str] = {}  # each name, and the module it is from
        for node in self.tree.body:
            if isinstance(node, ast.ImportFrom):
                self.imports.update((alias.asname or alias.name, node.module or "") for alias in node.names)
            elif isinstance(node, ast.ClassDef | ast.FunctionDef):
                self.imports[node.name] = self.module
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(target, ast.Name):
                        self.imports[target.id] = self.module
        self.modules = {alias.name for node in self.tree.body if isinstance(node, ast.Import) for alias in node.names}

    def methods(self, class_name: str) -> Iterator[Function]:
        (found,) = (node for node in self.tree.body if isinstance(node, ast.ClassDef) and node.name == class_name)
        return (node for node in found.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))

    def lines(self, first: int, last: int) -> str:
        return "\n".join(self.text.splitlines()[first - 1 : last])


def _is_property(function: Function) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "property" for each in function.decorator_list)


def _head_end(function: Function) -> int:
    """The last line of the signature and the docstring."""
    first = function.body[0]
    has_docstring = ast.get_docstring(function) is not None
    assert first.end_lineno is not None
    return first.end_lineno if has_docstring else first.lineno - 1


def _head(source: Source, function: Function) -> str:
    """The signature and the docstring, not awaitable."""
    return source.lines(function.lineno, _head_end(function)).replace("async def ", "def ", 1)


def _forward(function: Function) -> str:
    """The body that calls the awaitable client."""
    if _is_property(function):
        return f"return self._inner.{function.name}"
    given = [each.arg for each in [*function.args.posonlyargs, *function.args.args][1:]]
    if function.args.vararg is not None:
        given.append(f"*{function.args.vararg.arg}")
    given += [f"{each.arg}={each.arg}" for each in function.args.kwonlyargs]
    if isinstance(function, ast.AsyncFunctionDef):
        call = f"self._wait({', '.join([f'self._inner.{function.name}', *given])})"
    elif given:
        call = f"self._ask(lambda: self._inner.{function.name}({', '.join(given)}))"
    else:
        call = f"self._ask(self._inner.{function.name})"
    is_none = isinstance(function.returns, ast.Constant) and function.returns.value is None
    return call if is_none else f"return {call}"


def _public(root: Path, client: Client) -> dict[str, tuple[Source, Function]]:
    found: dict[str, tuple[Source, Function]] = {}
    for path, class_name in client.sources:
        source = Source(root, path)
        for function in source.methods(class_name):
            if not function.name.startswith("_") and function.name not in client.left_out:
                found[function.name] = source, function
    return found


def _names(function: Function) -> Iterator[str]:
    """Those that the signature uses."""
    parts = [each.annotation for each in ast.walk(function.args) if isinstance(each, ast.arg)]
    for part in [*parts, function.returns, *function.args.defaults, *function.args.kw_defaults]:
        for node in ast.walk(part) if part is not None else ():
            if isinstance(node, ast.Name):
                yield node.id


def _imports(methods: list[tuple[Source, Function]]) -> list[str]:
    lines = set()
    for source, function in methods:
        for name in _names(function):
            if name in source.imports:
                lines.add(f"from {source.imports[name]} import {name}")
            elif name in source.modules:
                lines.add(f"import {name}")
            elif not hasattr(builtins, name):
                raise SystemExit(f"generate_sync_clients: {source.module}: where is {name} from?")
    return sorted(lines)


def _formatted(root: Path, path: str, text: str) -> str:
    for command in (["check", "--select", "I", "--fix"], ["format"]):
        arguments = [sys.executable, "-m", "ruff", *command, "-q", "--stdin-filename", str(root / path), "-"]
        text = subprocess.run(arguments, input=text, capture_output=True, text=True, check=True).stdout
    return text


def _generated(root: Path, client: Client, methods: list[tuple[Source, Function]]) -> str:
    inner_module, _, inner_class = client.inner.rpartition(".")
    package, _, module = f"lograft.{inner_module}".rpartition(".")
    parts = [
        f'"""Methods of the synchronous {inner_class} that wait for those of the awaitable one.\n\n'
        "Generated by tools/generate_sync_clients.py (`make sync-clients`): change the awaitable client, not this.\n"
        '"""\n',
        *_imports(methods),
        "from lograft.clients.cluster.sync_client import SyncClient",
        f"from {package} import {module}",
        f"\n\nclass {client.class_name}(SyncClient):",
        f"    _inner: {module}.{inner_class}\n",
    ]
    for source, function in methods:
        decorator = "    @property\n" if _is_property(function) else ""
        parts.append(f"{decorator}{_head(source, function)}\n{textwrap.indent(_forward(function), ' ' * 8)}\n")
    return _formatted(root, client.generated, "\n".join(parts))


def _with_heads(root: Path, client: Client, public: dict[str, tuple[Source, Function]]) -> str:
    """The file that is written by hand, with the signatures and docstrings of the awaitable client."""
    source = Source(root, client.by_hand)
    lines = source.text.splitlines()
    class_name = client.inner.rpartition(".")[2]
    for function in sorted(source.methods(class_name), key=lambda each: -each.lineno):
        if function.name in public:
            lines[function.lineno - 1 : _head_end(function)] = _head(*public[function.name]).splitlines()
    text = "\n".join(lines) + "\n"
    options = _options(Source(root, client.sources[-1][0]).text)
    if options:
        before = _options(text)
        text = text.replace(before, options) if before else text
    return _formatted(root, client.by_hand, text)


def _options(text: str) -> str:
    """The part of a class's docstring that lists options, up to the docstring's end."""
    found = re.search(r"^    Options, all by name.*?(?=^    \"\"\")", text, re.M | re.S)
    return found[0] if found else ""


def contents(root: Path) -> dict[str, str]:
    """What each file of the synchronous clients should be, by path."""
    files = {}
    for client in CLIENTS:
        public = _public(root, client)
        source = Source(root, client.by_hand)
        by_hand = {each.name for each in source.methods(client.inner.rpartition(".")[2])}
        rest = [found for name, found in public.items() if name not in by_hand]
        files[client.by_hand] = _with_heads(root, client, public)
        if client.generated:
            files[client.generated] = _generated(root, client, rest)
        elif rest:
            names = ", ".join(function.name for _, function in rest)
            raise SystemExit(f"generate_sync_clients: {client.by_hand} lacks {names}")
    return files


def stale_files(root: Path) -> list[str]:
    """Paths of files that are not what the awaitable clients make."""
    wanted = contents(root)
    return [path for path, text in wanted.items() if not (root / path).exists() or (root / path).read_text() != text]


def write(root: Path) -> list[str]:
    """Bring the stale files up to date; their paths."""
    wanted, stale = contents(root), stale_files(root)
    for path in stale:
        (root / path).write_text(wanted[path])
    return stale


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if something is stale")
    arguments = parser.parse_args()
    stale = stale_files(ROOT) if arguments.check else write(ROOT)
    for path in stale:
        print(f"{path}: {'stale: run `make sync-clients`' if arguments.check else 'generated'}")
    if stale and arguments.check:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
