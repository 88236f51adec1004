"""The chapters of docs/cli.md: transcripts in tests/transcripts, in the order of their names.

A chapter may begin with a comment that says `its own cluster`, which its own commands start, or `no cluster named`,
which is that, and nothing says where it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "cli.md"
_FOLDER = ROOT / "tests" / "transcripts"
_ALONE, _UNNAMED = "<!-- its own cluster -->\n", "<!-- no cluster named -->\n"


@dataclass(frozen=True, slots=True)
class Chapter:
    path: Path
    text: str

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


def chapters() -> list[Chapter]:
    return [Chapter(path, path.read_text()) for path in sorted(_FOLDER.glob("*.md"))]


def document(parts: Sequence[Chapter]) -> str:
    return "\n".join(part.content for part in parts)
