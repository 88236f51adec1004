"""The end of a simulated node."""


class SimulatedCrash(BaseException):
    """Unwinds whatever a crashed node was doing. Not an Exception, so that no code of the node can survive it."""


def is_simulated_crash(error: BaseException) -> bool:
    """Whether `error` is a crash, or a group of nothing but crashes."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_simulated_crash(inner) for inner in error.exceptions)
    return isinstance(error, SimulatedCrash)
