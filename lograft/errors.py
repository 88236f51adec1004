"""What can go wrong: `LograftError`, and one class per cause."""

from lograft.clients import errors as _errors
from lograft.clients.errors import *  # noqa: F403

__all__ = [
    name
    for name in dir(_errors)
    if isinstance(getattr(_errors, name), type) and issubclass(getattr(_errors, name), _errors.LograftError)
]
