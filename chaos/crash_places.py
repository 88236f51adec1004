"""Where in the code a simulated crash came: so that one can see which places were met."""

import re
import sys

_OURS = "lograft."
_SIMULATED = "lograft.chaos."
_NUMBERS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]+|\d+")


def calling_code() -> str:
    """The innermost function of the production code that is at work: `storage.log.truncate`."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith(_OURS) and not module.startswith(_SIMULATED):
            return f"{module.removeprefix(_OURS)}.{frame.f_code.co_name}"
        frame = frame.f_back
    return "?"


def without_numbers(call: str) -> str:
    """`17 write 00000000000000000042.log`: `write *.log`."""
    return _NUMBERS.sub("*", call.partition(" ")[2])
