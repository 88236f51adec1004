r"""`\n`, `\t` and the like in what a person types, and what is no text on a terminal. Pure."""

import re

_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}


def unescape(text: str) -> bytes:
    r"""The bytes that are meant. `\xHH` is any byte; a backslash before anything else stands for itself."""
    pieces = re.split(r"(\\(?:[ntr0\\]|x[0-9a-fA-F]{2}))", text)
    return b"".join(
        _escaped(piece[1:]) if index % 2 else piece.encode(errors="surrogateescape")
        for index, piece in enumerate(pieces)
    )


def _escaped(name: str) -> bytes:
    return bytes.fromhex(name[1:]) if name.startswith("x") else _ESCAPES[name]


def harmless(content: bytes) -> str:
    """The same for a terminal: what would do something to it, or is no text, is escaped."""
    text = content.decode(errors="backslashreplace")
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character in "\n\t" else character.encode("unicode_escape").decode()
        for character in text
    )


def harmless_json(text: str) -> str:
    """Lines of JSON that are the same to a program, and harmless to a terminal."""
    return "".join(
        character if character.isprintable() or character == "\n" else _json_escape(character) for character in text
    )


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
