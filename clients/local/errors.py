"""Why a local cluster cannot do what it should. Pure."""


class LocalClusterError(Exception):
    """`remedy`: what its user can do about it."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(cause)
        self.remedy = remedy
