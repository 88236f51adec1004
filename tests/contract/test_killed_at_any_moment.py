"""A process with a journal of what it has not synced is killed in the middle of anything: what a power failure leaves
then is what it may leave of a disk that is simulated, with what was under way done or not."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from lograft.chaos.live.cluster.power_failure import lose_power
from lograft.chaos.world.files import VirtualFiles
from lograft.chaos.world.power_loss import Fate
from lograft.runtime.faults.faulty_files import FaultyFiles
from lograft.runtime.faults.settings import FaultSwitch
from lograft.runtime.files import Files, replace_file
from lograft.runtime.rng import Rng

Step = Callable[[Files, str], Any]

SYSTEM_CALLS = [
    "open", "write", "pwritev", "ftruncate", "rename", "replace", "link", "unlink", "rmdir", "mkdir", "fdatasync",
    "fsync",
]  # fmt: skip


NAMES = ["a", "b", "d/a", "d/b"]


class Killed(BaseException):
    pass


class FixedRng:
    """All that can be lost is lost, or nothing is."""

    def __init__(self, keeps: bool) -> None:
        self.keeps = keeps

    def choice(self, choices: list[Any]) -> Any:
        if isinstance(choices[0], Fate):
            return Fate.KEPT if self.keeps else Fate.LOST
        return choices[1 if self.keeps else 0]

    def randint(self, _first: int, last: int) -> int:
        return last


@contextmanager
def killed_at(call: int) -> Iterator[list[int]]:
    """In this system call, counted from 1, which is not made. What is yielded counts them."""
    made = [0]
    originals = {name: getattr(os, name) for name in SYSTEM_CALLS}

    def counting(name: str) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            made[0] += 1
            if made[0] == call:
                raise Killed
            return originals[name](*arguments, **named)

        return counted

    with pytest.MonkeyPatch.context() as patch:
        for name in SYSTEM_CALLS:
            patch.setattr(os, name, counting(name))
        yield made


def with_file(path: str, use: Callable[[Any], object], *, create: bool = False) -> Step:
    def step(files: Files, base: str) -> None:
        file = (files.create if create else files.open)(f"{base}/{path}")
        try:
            use(file)
        finally:
            file.close()

    return step


def lay_out(files: Files, base: str) -> None:
    """Durably, so that there is something to be spoilt."""
    files.make_directory(f"{base}/d")
    files.sync_directory(base)
    for name in NAMES[:3]:
        replace_file(files, f"{base}/{name}", name.encode() * 10)


def random_steps(rng: Rng, count: int) -> list[Step]:
    names = NAMES

    def one() -> Step:
        path, other = rng.sample(names, 2)
        position, data = rng.randrange(40), bytes([rng.randrange(1, 256)]) * rng.randrange(1, 30)
        return rng.choice(
            [
                with_file(path, lambda file: file.write(0, [data]), create=True),
                with_file(path, lambda file: file.write(position, [data])),
                with_file(path, lambda file: (file.write(position, [data]), file.sync())),
                with_file(path, lambda file: file.truncate(position)),
                with_file(path, lambda file: file.sync()),
                lambda files, base: files.rename(f"{base}/{path}", f"{base}/{other}"),
                lambda files, base: files.remove(f"{base}/{path}"),
                lambda files, base: files.make_directory(f"{base}/d"),
                lambda files, base: files.remove_directory(f"{base}/d"),
                lambda files, base: files.sync_directory(base),
                lambda files, base: files.sync_directory(f"{base}/d"),
                lambda files, base: replace_file(files, f"{base}/{path}", data),
            ]
        )

    return [one() for _ in range(count)]


def attempt(step: Step, files: Files, base: str) -> None:
    with suppress(OSError):  # there is no such file, say
        step(files, base)


def tree(directory: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in sorted(directory.rglob("*"))
    }


def virtual_tree(files: VirtualFiles, below: str = "/data") -> dict[str, bytes | None]:
    found: dict[str, bytes | None] = {}
    for name in files.list_directory(below):
        path = f"{below}/{name}"
        try:
            found |= {path[6:]: None, **virtual_tree(files, path)}
        except NotADirectoryError:
            found[path[6:]] = dict(files.contents(path))[path]
    return found


def left_by_simulation(steps: list[Step], keeps: bool) -> dict[str, bytes | None]:
    files = VirtualFiles(Rng(1))
    files.make_directory("/data")
    files.sync_directory("/")
    lay_out(files, "/data")
    for step in steps:
        attempt(step, files, "/data")
    files._rng = FixedRng(keeps)  # type: ignore[assignment]
    files.power_failure()
    return virtual_tree(files)


@pytest.mark.parametrize("seed", range(5))
def test_whenever_it_is_killed_the_undoing_is_right(tmp_path: Path, seed: int) -> None:
    rng = Rng(seed)
    steps = random_steps(rng, 12)
    call, was_killed = 0, True
    while was_killed:
        call += 1
        place = tmp_path / str(call)
        base, faults = place / "data", place / "faults"
        base.mkdir(parents=True)
        faults.mkdir()
        done, was_killed = 0, False
        files = FaultyFiles(FaultSwitch(str(faults)))
        lay_out(files, str(base))
        with killed_at(call):
            try:
                for step in steps:
                    attempt(step, files, str(base))
                    done += 1
            except Killed:
                was_killed = True
        before, after = steps[:done], steps[: done + 1]
        keeps = rng.random() < 0.5
        if rng.random() < 0.5:  # another process is started, and killed at once
            FaultyFiles(FaultSwitch(str(faults))).close()
        lose_power(base, faults, FixedRng(keeps))  # type: ignore[arg-type]
        found = tree(base)
        if keeps:
            # What was under way may be done in part: of what the step is about, nothing is said.
            assert _same_but_for_one(found, left_by_simulation(before, True), left_by_simulation(after, True)), call
        else:
            assert found in _between(steps, done), f"killed in call {call}, in step {done}"
        shutil.rmtree(place)


def _between(steps: list[Step], done: int) -> list[dict[str, bytes | None]]:
    return [left_by_simulation(steps[:count], False) for count in (done, done + 1)]


def _same_but_for_one(
    found: dict[str, bytes | None], before: dict[str, bytes | None], after: dict[str, bytes | None]
) -> bool:
    """Whatever both worlds agree upon is so; a step changes one or two names, and one content."""
    agreed = {name for name in {*before, *after} if before.get(name, b"-") == after.get(name, b"-")}
    extra = {name for name in found if name not in before and name not in after and not name.endswith(".tmp")}
    return not extra and all(found.get(name, b"-") == before.get(name, b"-") for name in agreed)
