"""Keeping count of the problems a dump has shown."""

from lograft.storage.inspect.dump import Problem

# A file can be damaged in more places than memory should hold; each is shown where it is met all the same.
MOST_KEPT = 10_000


class ProblemCount:
    """What was wrong, in the order it was met; the first problems are kept, all are counted."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.count = 0

    def add(self, problem: Problem) -> None:
        self.count += 1
        if len(self.problems) < MOST_KEPT:
            self.problems.append(problem)

    @property
    def is_valid(self) -> bool:
        return self.count == 0

    def __str__(self) -> str:
        if self.is_valid:
            return "all valid"
        first = self.problems[0].position
        return f"1 problem, at byte {first}" if self.count == 1 else f"{self.count} problems, the first at byte {first}"
