"""Human-readable bytes, durations and counts. Pure."""

_SIZES = ("B", "KB", "MB", "GB", "TB", "PB")
_SPANS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"))


def size_text(size_bytes: float | None) -> str | None:
    """Return a size such as `1.2 GB`, in decimal units. None stays None."""
    if size_bytes is None:
        return None
    amount, at = float(size_bytes), 0
    while amount >= 999.5 and at < len(_SIZES) - 1:
        amount, at = amount / 1000, at + 1
    return f"{amount:.3g} {_SIZES[at]}" if at else f"{size_bytes:.0f} B"


def span_text(duration_ms: int) -> str:
    """Return a duration such as `42s`, `3m`, `2h`, in the largest unit with a value of two or more."""
    for unit_ms, name in _SPANS:
        if duration_ms >= 2 * unit_ms:
            return f"{duration_ms // unit_ms}{name}"
    return f"{duration_ms}ms" if duration_ms < 1000 else "1s"


def count_text(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or f'{one}s'}"
