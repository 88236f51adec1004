"""Where in the code a simulated crash came: so that one can see which places were met."""

import re
import sys

_OURS = "lograft."
_SIMULATED = "lograft.chaos."
_OUTSIDE_WORLD = "lograft.runtime."
_NAMES = re.compile(r"\.[0-9a-f]{32}|\d+")


def calling_code() -> str:
    """The function of the production code that is at work, the outside world's only if there is no other:
    `storage.log.truncate`."""
    frame, outermost = sys._getframe(1), ""
    while frame.f_back is not None:
        module, name = frame.f_globals.get("__name__", ""), frame.f_code.co_name
        place = f"{module.removeprefix(_OURS)}.{name}"
        if module.startswith(_OURS) and not module.startswith((_SIMULATED, _OUTSIDE_WORLD)):
            return place
        if module.startswith(_OUTSIDE_WORLD) and not outermost:
            outermost = place
        frame = frame.f_back
    return outermost or "?"


def without_numbers(call: str) -> str:
    """`17 write 00000000000000000042.log`: `write *.log`."""
    return _NAMES.sub("*", call.partition(" ")[2])
