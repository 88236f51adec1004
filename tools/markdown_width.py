"""Check that Markdown is wrapped at 100 columns. Code blocks, tables, and lines that hold a link may be longer.

Files in `wide_markdown.txt` are not wrapped yet: the list may only get shorter.
"""

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KNOWN = Path(__file__).with_name("wide_markdown.txt")
COLUMNS = 100

_FENCE = re.compile(r"\s*(?:>\s*)?(?:[-*]\s+|\d+\.\s+)?(```+|~~~+)")
_LINK = re.compile(r"\]\(|\]\[|^\s*\[[^\]]+\]:|https?://|<img|<a ")


def wide_lines(text: str) -> Iterator[int]:
    """Yield the numbers of lines that are too long."""
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        found = _FENCE.match(line)
        if found and (not fence or found[1].startswith(fence)):
            fence = "" if fence else found[1]
        elif not fence and len(line) > COLUMNS and not line.lstrip().startswith("|") and not _LINK.search(line):
            yield number


def findings(wide: dict[str, list[int]], known: Iterable[str]) -> Iterator[str]:
    """`wide`: the lines that are too long, by file."""
    known = set(known)
    for name, lines in sorted(wide.items()):
        if name not in known:
            yield from (f"{name}:{number}: longer than {COLUMNS} columns" for number in lines)
    for name in sorted(known - wide.keys()):
        yield f"{name} is wrapped now: remove it from {KNOWN.relative_to(ROOT)}"


def main() -> int:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).exists()]
    found = {str(path.relative_to(ROOT)): list(wide_lines(path.read_text())) for path in paths}
    wrong = list(findings({name: lines for name, lines in found.items() if lines}, KNOWN.read_text().split()))
    print("\n".join(wrong) or f"{len(paths)} Markdown files are at most {COLUMNS} columns wide")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
