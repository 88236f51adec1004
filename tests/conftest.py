"""What holds for all tests."""

import signal

from hypothesis import settings

# Whoever starts the tests in the background may have had Ctrl+C ignored, and all that they start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long something takes never decides whether it is right.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
