"""What is known to be wrong with the house: known.toml. No figure may rise, and none may be higher than what is there:
`make ratchet` stores what has fallen.

Sections: `cycles`, imports between folders that are part of a cycle; `crowded`, folders with too many modules; `dead`,
declarations that nothing names; `words`, those that STYLE.md says to avoid, by room.
"""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from tidy import declarations, folders, rules, words

FILE = Path(__file__).with_name("known.toml")
FACES = ("lograft",)  # it is no room of the import table
_TEXT = (".cfg", ".html", ".js", ".json", ".md", ".proto", ".py", ".pyi", ".sh", ".toml", ".txt", ".yaml", ".yml", "")

Figures = dict[str, dict[str, int]]


def actual() -> Figures:
    """What there is, by section."""
    trees: dict[str, ast.Module] = {}
    counts: dict[str, int] = {}
    for room in (*rules.ROOMS, *FACES):
        counts[room] = 0
        for path in sorted((rules.ROOT / room).glob("**/*.py")):
            if not path.name.endswith("_pb2.py"):
                text = path.read_text()
                trees[str(path.relative_to(rules.ROOT))] = ast.parse(text)
                counts[room] += words.count(text)
    return {
        "cycles": folders.cyclic(folders.imports_between(trees)),
        "crowded": folders.crowded(trees),
        "dead": declarations.dead(trees.values(), declarations.identifiers(_texts())),
        "words": counts,
    }


def _texts() -> Iterator[str]:
    """Everything that could name a declaration: the tracked files, but for generated code and these checks."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=rules.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        path = rules.ROOT / name
        # What the check itself lists is no use of it.
        is_read = path.suffix in _TEXT and "_pb2." not in name and path.parent != FILE.parent
        if is_read and path.is_file():
            yield path.read_text(errors="replace")


def known() -> Figures:
    return tomllib.loads(FILE.read_text())


def differences(stored: Mapping[str, Mapping[str, int]], found: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield what rose, and what fell without being stored."""
    for section, figures in found.items():
        before = stored.get(section, {})
        for key in sorted({*before, *figures}):
            old, new = before.get(key, 0), figures.get(key, 0)
            if new > old:
                yield f"{section}: {key} rose from {old} to {new}"
            elif new < old:
                yield f"{section}: {key} fell from {old} to {new}; `make ratchet` stores that"


def lowered(stored: Mapping[str, Mapping[str, int]], found: Mapping[str, Mapping[str, int]]) -> Figures:
    """The stored figures, but for those that have fallen; those that are 0 are left out."""
    figures = {
        section: {key: min(old, found.get(section, {}).get(key, 0)) for key, old in before.items()}
        for section, before in stored.items()
    }
    return {section: {key: value for key, value in each.items() if value} for section, each in figures.items()}


def written(figures: Mapping[str, Mapping[str, int]]) -> str:
    """As TOML; entries stand apart, so that changes of two do not conflict."""
    parts = [
        "# What is known to be wrong: see known.py. Figures may only fall; `make ratchet` stores what has fallen.\n"
    ]
    for section, entries in sorted(figures.items()):
        parts.append(f"\n[{section}]\n\n")
        parts.append("\n\n".join(f'"{key}" = {value}' for key, value in sorted(entries.items())) + "\n")
    return "".join(parts)


def main() -> int:
    found = actual()
    FILE.write_text(written(lowered(known(), found)))
    left = list(differences(known(), found))
    print("\n".join(left) or "every figure is stored")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
