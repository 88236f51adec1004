"""Errors of a store."""


class StoreError(Exception):
    """Base class: an error that a store reports."""


class StoreRefused(StoreError):
    """The store must not be used as it is. `cause` says why, `remedy` what to do."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(f"{cause}: {remedy}")
        self.cause = cause
        self.remedy = remedy


class StoreNotEmpty(StoreError):
    """The first voters may only be written into an empty store, and this one is not."""


class StoreFailed(StoreError):
    """A transaction failed. What the disk holds is unknown, so the store has ended and the node must die."""

    def __init__(self, path: str, cause: object) -> None:
        super().__init__(f"the store at {path} failed, and takes nothing more: {cause}")
        self.path = path
        self.cause = cause
