"""Parse templates of `-o jsonpath=...`. Pure."""

import re

from lograft.cli.common.jsonpath import (
    OPERATORS,
    Every,
    Everywhere,
    Field,
    Filter,
    Literal,
    Path,
    Range,
    Slice,
    Step,
    Template,
    Text,
    Union,
)

_NAME_ENDS = " \t\n{}[]().,=!<>'\"*?@$|&"
_INTEGER = re.compile(r"-?[0-9]{1,18}(?![0-9.eE])", flags=re.ASCII)
_NUMBER = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?(?![0-9.eE])", flags=re.ASCII)
_WORDS = {"true": True, "false": False, "null": None}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}
_DEEPEST = 50


class BadTemplate(ValueError):
    """An invalid template. The message names the problem and its position."""


def parse_template(text: str) -> Template:
    """Parse a template. A single path such as `.spec.replicas` needs no braces."""
    if text[:1] in (".", "$") and "{" not in text:
        text = "{" + text + "}"
    parser = _Parser(text)
    template, end_of = parser.template(0)
    if end_of is not None:
        raise parser.wrong("{end} without {range ...}", end_of)
    return template


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def wrong(self, what: str, at: int | None = None) -> BadTemplate:
        at = self._at if at is None else at
        return BadTemplate(f"{what}, at character {at + 1} of {self._text!r}")

    # -- text and braces

    def template(self, depth: int) -> tuple[Template, int | None]:
        """Parse up to an `{end}`, and return its position; None if the text ends first."""
        if depth > _DEEPEST:
            raise self.wrong(f"more than {_DEEPEST} nested ranges")
        parts: list[Text | Path | Range] = []
        while self._at < len(self._text):
            brace = self._text.find("{", self._at)
            if brace != self._at:
                end = len(self._text) if brace < 0 else brace
                parts.append(Text(self._text[self._at : end]))
                self._at = end
                continue
            self._at += 1
            self._blanks()
            if self._word("end"):
                self._close(brace)
                return tuple(parts), brace
            if self._word("range"):
                self._blanks()
                path = self._path()
                self._close(brace)
                body, end_of = self.template(depth + 1)
                if end_of is None:
                    raise self.wrong("{range ...} without {end}", brace)
                parts.append(Range(path, body))
                continue
            parts.append(Text(self._quoted()) if self._peek() in ("'", '"') else self._path())
            self._close(brace)
        return tuple(parts), None

    def _close(self, opened: int) -> None:
        self._blanks()
        if self._at >= len(self._text):
            raise self.wrong("{ without }", opened)
        self._expect("}")

    # -- paths

    def _path(self, depth: int = 0) -> Path:
        first, start = self._at, self._peek()
        if start in ("$", "@"):
            self._at += 1
        steps: list[Step] = []
        while True:
            if self._take(".."):
                steps.append(Everywhere())
                if self._take("*"):
                    steps.append(Every())
                elif self._peek() != "[":
                    steps.append(Field(self._name()))
            elif self._take("."):
                # A single dot is the root, and a dot before a bracket is ignored.
                if self._take("*"):
                    steps.append(Every())
                elif steps or self._peek() not in ("", *"[} )=!<>"):
                    steps.append(Field(self._name()))
            elif self._take("["):
                steps.append(self._bracket(depth))
            elif self._at == first:
                raise self.wrong("expected a path such as .items[*].metadata.name, or quoted text")
            else:
                return Path(tuple(steps), is_absolute=start == "$")

    def _name(self) -> str:
        letters = []
        while (letter := self._peek()) and letter not in _NAME_ENDS:
            if letter == "\\":
                self._at += 1
                letter = self._peek()
                if not letter:
                    break
            letters.append(letter)
            self._at += 1
        if not letters:
            raise self.wrong("expected a field name")
        return "".join(letters)

    def _bracket(self, depth: int) -> Step:
        self._blanks()
        if self._take("?"):
            self._expect("(")
            step: Step = self._filter(depth)
            self._expect(")")
        elif self._take("*"):
            step = Every()
        else:
            steps = [self._element()]
            self._blanks()
            while self._take(","):
                self._blanks()
                steps.append(self._element())
                self._blanks()
            step = steps[0] if len(steps) == 1 else Union(tuple(steps))
        self._blanks()
        self._expect("]")
        return step

    def _element(self) -> Field | Slice:
        if self._peek() in ("'", '"'):
            return Field(self._quoted(), is_quoted=True)
        at = self._at
        start = self._integer()
        if not self._take(":"):
            if start is None:
                raise self.wrong("expected a number, a quoted name, *, or ?(...)")
            # -1 is the last element, so the slice has no end.
            return Slice(start, start + 1 if start != -1 else None)
        end = self._integer()
        step = self._integer() if self._take(":") else None
        if step is not None and step <= 0:
            raise self.wrong("the step of a slice must be 1 or more", at)
        return Slice(start, end, step)

    def _filter(self, depth: int) -> Filter:
        if depth > _DEEPEST:
            raise self.wrong(f"more than {_DEEPEST} nested filters")
        self._blanks()
        left = self._side(depth)
        self._blanks()
        operator = next((each for each in OPERATORS if self._take(each)), "")
        if not operator:
            return Filter(left)
        self._blanks()
        right = self._side(depth)
        self._blanks()
        return Filter(left, operator, right)

    def _side(self, depth: int) -> Path | Literal:
        if self._peek() in ("'", '"'):
            return Literal(self._quoted())
        for word, value in _WORDS.items():
            if self._word(word):
                return Literal(value)
        number = _NUMBER.match(self._text, self._at)
        if number is not None:
            self._at = number.end()
            return Literal(float(number[0]) if number[1] else int(number[0]))
        return self._path(depth + 1)

    # -- letters

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _blanks(self) -> None:
        while self._peek() in (" ", "\t", "\n"):
            self._at += 1

    def _take(self, token: str) -> bool:
        if not self._text.startswith(token, self._at):
            return False
        self._at += len(token)
        return True

    def _word(self, word: str) -> bool:
        """Parse an integer."""
        end = self._at + len(word)
        return self._text[end : end + 1] in ("", *" \t\n})=!<>") and self._take(word)

    def _expect(self, token: str) -> None:
        if not self._take(token):
            found = f"found {self._peek()!r}" if self._peek() else "but the template ends"
            raise self.wrong(f"expected {token!r}, {found}")

    def _integer(self) -> int | None:
        found = _INTEGER.match(self._text, self._at)
        if found is None:
            return None
        self._at = found.end()
        return int(found[0])

    def _quoted(self) -> str:
        quote, opened = self._peek(), self._at
        self._at += 1
        letters = []
        while (letter := self._peek()) != quote:
            self._at += 1
            if letter == "\\" and self._peek():
                # As in Go, an unknown escape is the letter itself.
                letter = _ESCAPES.get(self._peek(), self._peek())
                self._at += 1
            if not letter:
                raise self.wrong(f"unclosed {quote}", opened)
            letters.append(letter)
        self._at += 1
        return "".join(letters)
