"""Why there is no figure."""


class CannotRun(Exception):
    """A system that cannot be had here, and why."""


class Wrong(Exception):
    """What a system did is not what the workload asks for, so no figure is made of it."""
