"""What a number or a text among a client's options may be. Pure."""

from lograft.clients.errors import InvalidArgument

MAX_INT32 = 2**31 - 1


def check_integer(name: str, value: object, least: int, most: int = MAX_INT32) -> None:
    """`InvalidArgument`, which names the option, unless it is a whole number within these bounds."""
    if not isinstance(value, int) or not least <= value <= most:
        raise InvalidArgument(f"{name} is {value!r}: give a whole number from {least} to {most}")


def check_duration(name: str, value: object) -> None:
    """As `check_integer`, for what may have a fraction, or be 0."""
    if not isinstance(value, int | float) or not value >= 0:
        raise InvalidArgument(f"{name} is {value!r}: give 0 or more")


def check_client_id(value: object) -> None:
    if not isinstance(value, str) or not value.isprintable() or len(value) > 1000:
        raise InvalidArgument(f"client_id is {value!r:.100}: give a short text")


def check_rack(value: object) -> None:
    if value is not None and (not isinstance(value, str) or not value or not value.isprintable()):
        raise InvalidArgument(f"rack is {value!r:.100}: give the name of one, as brokers have it, or None")
