"""What holds for all tests."""

import os
import signal

from hypothesis import settings

# Whoever starts the tests in the background may have had Ctrl+C ignored, and all that they start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test reads or writes the contexts file of whoever runs it: there can be no file of this name.
os.environ["LOGRAFT_CONFIG"] = f"{os.devnull}/none"

# How long something takes never decides whether it is right. Examples are the same each time, so that a commit passes
# or fails alike; `make soak` has fresh ones, from the seed that it gives (`--hypothesis-seed`).
settings.register_profile("fixed", deadline=None, derandomize=True, database=None)
settings.register_profile("fresh", deadline=None, database=None)
settings.load_profile("fresh" if os.environ.get("LOGRAFT_FRESH") else "fixed")
