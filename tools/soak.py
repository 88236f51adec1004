"""Run everything random from fresh seeds for a given time; write the commands that replay failures to a file.

python tools/soak.py 10m
python tools/soak.py 8h --jobs 1 --failures failed.txt --only clusters

What there is: the simulators of Raft, of the metadata and of whole clusters, lives of the log and of Raft cores, and
every test that draws its examples with Hypothesis. They take turns, a few seeds at a time.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHON = sys.executable.removeprefix(f"{ROOT}/")  # as people type it there
PYTEST = f"{PYTHON} -m pytest -q -p no:cacheprovider"
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@dataclass(frozen=True, slots=True)
class Batch:
    """A command that runs a few seeds. `replays`: the commands that run again what failed, from what it wrote."""

    name: str
    command: str
    replays: Callable[[str], list[str]]


# -- what there is


def hypothesis_files(root: Path = ROOT) -> list[str]:
    """The files of tests whose examples Hypothesis draws."""
    found = (path for path in sorted((root / "tests").rglob("test_*.py")) if "hypothesis" in path.read_text())
    return [str(path.relative_to(root)) for path in found]


def batches(dice: random.Random, files: Sequence[str], only: str = "") -> Iterator[Batch]:
    """One after the other, each kind in turn, without end; those whose names begin with `only`."""
    kinds: list[Callable[[int], Batch]] = [_clusters, _log_lives, _raft, _clusters, _metadata, _raft_lives]
    while True:
        for kind in [*kinds, lambda seed: _examples(dice.choice(files), seed)]:
            batch = kind(dice.randrange(1, 2**31))  # type: ignore[no-untyped-call]
            if batch.name.startswith(only):
                yield batch


def _clusters(seed: int) -> Batch:
    command = f"{PYTHON} -m lograft chaos simulate --seeds 10 --first {seed} --jobs 1 --shrink-for 30s"

    def replays(output: str) -> list[str]:
        return [
            f"{PYTHON} -m {one}" for one in _unique(re.findall(r"again: (lograft .*?)(?: --trace)?$", output, re.M))
        ]

    return Batch("clusters", command, replays)


def _raft(seed: int) -> Batch:
    command = f"{PYTHON} tools/simulate_raft.py --seeds 100 --first {seed}"

    def replays(output: str) -> list[str]:
        return [
            f"make sim SEED={one} TIER={tier}"
            for one, tier in re.findall(r"^seed (\d+) \((\w+)\) FAILED", output, re.M)
        ]

    return Batch("raft", command, replays)


def _metadata(seed: int) -> Batch:
    command = f"{PYTHON} tools/simulate_metadata.py --seeds 10 --first {seed}"
    return Batch("metadata", command, lambda output: _unique(re.findall(r"(make sim-metadata SEED=\d+)", output)))


def _log_lives(seed: int) -> Batch:
    return _lives("log-lives", "tests/property/test_log_lives.py", seed, 30)


def _raft_lives(seed: int) -> Batch:
    return _lives("raft-lives", "tests/property/test_raft_lives.py", seed, 100)


def _lives(name: str, file: str, seed: int, count: int) -> Batch:
    def replays(output: str) -> list[str]:
        return [
            f"LOGRAFT_SEED={one} {PYTEST} {file}::test_lives"
            for one in _unique(re.findall(r"LOGRAFT_SEED=(\d+)", output))
        ]

    return Batch(name, f"LOGRAFT_SEED={seed} LOGRAFT_LIVES={count} {PYTEST} {file}::test_lives", replays)


def _examples(file: str, seed: int) -> Batch:
    again = f"LOGRAFT_FRESH=1 {PYTEST} --hypothesis-seed={seed}"

    def replays(output: str) -> list[str]:
        return [f"{again} {test!r}" for test in _unique(re.findall(r"^FAILED (\S+)", output, re.M))]

    return Batch(f"examples {file}", f"{again} {file}", replays)


def _unique(found: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(found))


# -- running it


class Soak:
    """`failures`: a file to which the command is added that replays each failure."""

    def __init__(self, failures: Path, environment: dict[str, str]) -> None:
        self.counts: Counter[str] = Counter()
        self.failed: list[str] = []
        self._failures = failures
        self._environment = environment
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._is_over = False

    def run(self, found: Iterator[Batch], seconds: float, jobs: int) -> None:
        """Until the time is over, and those that run are through."""
        end = time.monotonic() + seconds
        workers = [threading.Thread(target=self._work, args=(found, end)) for _ in range(jobs)]
        for worker in workers:
            worker.start()
        try:
            for worker in workers:
                worker.join()
        except KeyboardInterrupt:
            self._stop()
            for worker in workers:
                worker.join()
            raise

    def _work(self, found: Iterator[Batch], end: float) -> None:
        while not self._is_over and time.monotonic() < end:
            with self._lock:
                batch = next(found)
            self.run_one(batch)

    def run_one(self, batch: Batch) -> None:
        # Not a pipe: what a batch writes is kept whole, however much it is.
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                ["bash", "-c", f"exec env {batch.command}"],
                cwd=ROOT, env=self._environment, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
            self._running.add(process)
            code = process.wait()
            self._running.discard(process)
            output.seek(0)
            written = output.read().decode(errors="replace")
        if not self._is_over:
            self._conclude(batch, code, written)

    def _conclude(self, batch: Batch, code: int, written: str) -> None:
        with self._lock:
            self.counts[batch.name.split()[0]] += 1
            if code == 0:
                return
            # Whatever failed can be run again, even if nothing that is known tells which seed of the batch it was.
            commands = batch.replays(written) or [batch.command]
            self.failed += commands
            print(f"\n{batch.name} FAILED:\n" + "\n".join(written.splitlines()[-40:]), flush=True)
            with self._failures.open("a") as file:
                for command in commands:
                    print(f"  {command}", flush=True)
                    file.write(command + "\n")

    def _stop(self) -> None:
        self._is_over = True
        for process in list(self._running):
            process.terminate()


def seconds_of(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration: give 30s, 10m or 8h")
    return float(match[1]) * _UNITS[match[2]]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("duration", type=seconds_of, help="how long: 30s, 10m, 8h; what runs by then is finished")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many processes at a time")
    parser.add_argument("--failures", type=Path, default=ROOT / "soak-failures.txt", help="what is added to")
    parser.add_argument(
        "--only", default="", help="one kind: clusters, raft, metadata, log-lives, raft-lives, examples"
    )
    given = parser.parse_args(arguments)
    dice = random.Random(int.from_bytes(os.urandom(8), "big"))
    soak = Soak(given.failures, dict(os.environ))
    try:
        soak.run(batches(dice, hypothesis_files(), given.only), given.duration, given.jobs)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    print(", ".join(f"{name} {count}" for name, count in sorted(soak.counts.items())) + " batches of fresh seeds")
    if soak.failed:
        print(f"{len(soak.failed)} FAILED; the commands that replay them are in {given.failures}")
        return 1
    print("everything held")
    return 0


if __name__ == "__main__":
    sys.exit(main())
