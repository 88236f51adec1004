"""Count the problems found in a dump."""

from lograft.storage.inspect.dump import Problem

# A file may be damaged in more places than fit in memory. Each is still printed where it is found.
MOST_KEPT = 10_000


class ProblemCount:
    """Problems in file order: the first ones are kept, all are counted."""

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
