"""Types the transcripts again, writes what is answered into them where it differs, and makes documents of them.

What changed is to be looked at before it is committed: `git diff tests/transcripts`.
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.quick_shell import QuickShell
from support.transcript_chapters import BOOKS, Chapter, chapters
from support.transcript_shell import Shell, shell, start_cluster
from support.transcripts import ANYTHING, Step, with_answers

# What is different each time: ids, names made of them, and the time of day.
_CHANCE = re.compile(
    r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b20\d\d-\d\d-\d\dT\d\d:\d\d:[\d:.]+Z?|(?<=dev-)[0-9a-f]{12}\b|(?<=@)[0-9a-f]{8}\b|(?<=lograft-edit-)\w{8}\b"
)


def retyped(chapter: Chapter, opened: Shell) -> str:
    def answer(step: Step) -> Sequence[str]:
        lines = opened.run(step)
        return step.expected if step.accepts(lines) else [_CHANCE.sub(ANYTHING, line) for line in lines]

    return with_answers(chapter.text, answer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only chapters whose names contain one of these")
    names = parser.parse_args().names
    chosen = [chapter for chapter in chapters() if not names or any(name in chapter.path.stem for name in names)]
    with tempfile.TemporaryDirectory(prefix="lograft-transcripts-") as directory:
        together = [chapter for chapter in chosen if not chapter.is_alone]
        if together:
            with shell(Path(directory) / "shared") as opened:
                start_cluster(opened)
                quick = opened.as_kind(QuickShell)
                for chapter in together:
                    chapter.path.write_text(retyped(chapter, quick if chapter.is_quick else opened))
        for chapter in chosen:
            if chapter.is_alone:
                with shell(Path(directory) / chapter.path.stem, knows_cluster=chapter.knows_cluster) as opened:
                    chapter.path.write_text(retyped(chapter, opened))
    for book in BOOKS:
        book.document.write_text(book.text())


if __name__ == "__main__":
    main()
