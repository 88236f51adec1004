"""Small sealed files: a kind, a content and a CRC over both, so that damage is detected.

Text kinds are readable as they are; the last line is the seal. Layout: `<content>crc32c <8 hex digits> <kind>\\n`.
Pure.
"""

import google_crc32c


class BrokenSeal(ValueError):
    """The content does not match the seal, or the file is of another kind."""


def seal(kind: str, content: bytes) -> bytes:
    """Return `content` followed by a line with its seal."""
    crc = google_crc32c.extend(google_crc32c.value(kind.encode()), content)
    return content + f"crc32c {crc:08x} {kind}\n".encode()


def unseal(kind: str, sealed: bytes) -> bytes:
    """Return the content. Raise `BrokenSeal` if it does not match its seal."""
    trailer_bytes = len(seal(kind, b""))
    content = sealed[:-trailer_bytes] if len(sealed) >= trailer_bytes else b""
    if seal(kind, content) != sealed:
        raise BrokenSeal(f"not a sound {kind} file: its seal does not match its content")
    return content
