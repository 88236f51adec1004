"""The chapters of documents: transcripts in tests/transcripts, in the order of their names.

A chapter may begin with a comment that says `its own cluster`, which its own commands start, or `no cluster named`,
which is that, and nothing says where it is.
"""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FOLDER = ROOT / "tests" / "transcripts"
_ALONE, _UNNAMED = "<!-- its own cluster -->\n", "<!-- no cluster named -->\n"


@dataclass(frozen=True, slots=True)
class Chapter:
    """`is_quick`: its commands are many and do little, and need no process of their own."""

    path: Path
    text: str
    is_quick: bool = False

    @property
    def is_alone(self) -> bool:
        return self.text.startswith((_ALONE, _UNNAMED))

    @property
    def knows_cluster(self) -> bool:
        return not self.text.startswith(_UNNAMED)

    @property
    def content(self) -> str:
        """Without the comment."""
        return self.text.removeprefix(_ALONE).removeprefix(_UNNAMED)


@dataclass(frozen=True, slots=True)
class Book:
    """A document, and the folder of its chapters."""

    document: Path
    folder: Path
    is_quick: bool = False

    def chapters(self) -> list[Chapter]:
        return [Chapter(path, path.read_text(), self.is_quick) for path in sorted(self.folder.glob("*.md"))]

    def text(self) -> str:
        return "\n".join(chapter.content for chapter in self.chapters())


BOOKS = (
    Book(ROOT / "docs" / "cli.md", _FOLDER),
    Book(ROOT / "docs" / "cli-errors.md", _FOLDER / "errors", is_quick=True),
    Book(ROOT / "docs" / "runbooks.md", _FOLDER / "runbooks"),
)


def chapters() -> list[Chapter]:
    """Of all of them."""
    return [chapter for book in BOOKS for chapter in book.chapters()]
