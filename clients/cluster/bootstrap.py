"""Parses bootstrap addresses as users write them. Pure."""

from collections.abc import Iterable, Mapping

from lograft.clients.errors import InvalidArgument

DEFAULT_PORT = 9092


def parse_bootstrap(bootstrap: str | Iterable[str], client: str = "Producer") -> tuple[str, ...]:
    """Return `host:port` of each broker in `bootstrap`: one address, several separated by commas, or a list. The port
    is optional. Raise `InvalidArgument` for anything else, with an example of how to call `client`."""
    if isinstance(bootstrap, Mapping):
        raise InvalidArgument(
            f"{client} takes no dict of settings: give the brokers first, then options by name, as in "
            f"{client}('localhost:9092', client_id='my-app')"
        )
    texts = bootstrap.split(",") if isinstance(bootstrap, str) else list(bootstrap)
    addresses = [_address(text.strip()) for text in texts if text.strip()]
    if not addresses:
        raise InvalidArgument("no broker to connect to: give bootstrap as host:port, such as localhost:9092")
    return tuple(dict.fromkeys(addresses))


def _address(text: str) -> str:
    host, separator, port = text.rpartition(":")
    if not separator or text.endswith("]"):
        return f"{text}:{DEFAULT_PORT}"
    is_bare_ipv6 = ":" in host and not host.startswith("[")
    if not host or is_bare_ipv6 or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        raise InvalidArgument(f"{text!r} is not an address: give host:port, such as localhost:9092 or [::1]:9092")
    return text
