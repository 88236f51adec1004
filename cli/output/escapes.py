r"""Escapes such as `\n` and `\t` in arguments, and of unprintable bytes on a terminal. Pure."""

import re

_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}


def unescape(text: str) -> bytes:
    r"""Decode escapes to bytes. `\xHH` is any byte; a backslash before other characters is literal."""
    pieces = re.split(r"(\\(?:[ntr0\\]|x[0-9a-fA-F]{2}))", text)
    return b"".join(
        _escaped(piece[1:]) if index % 2 else piece.encode(errors="surrogateescape")
        for index, piece in enumerate(pieces)
    )


def _escaped(name: str) -> bytes:
    return bytes.fromhex(name[1:]) if name.startswith("x") else _ESCAPES[name]


def harmless(content: bytes) -> str:
    """Escape control characters and invalid text for a terminal."""
    text = content.decode(errors="backslashreplace")
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character in "\n\t" else character.encode("unicode_escape").decode()
        for character in text
    )


def harmless_json(text: str) -> str:
    """Escape control characters in lines of JSON without changing their meaning."""
    return "".join(
        character if character.isprintable() or character == "\n" else _json_escape(character) for character in text
    )


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
