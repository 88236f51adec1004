"""A one-minute demo: start three nodes, kill a leader during writes, verify that no record is lost, read with Spark.

python examples/demo/demo.py [--without-spark]

The exit code is 0 only if all checks pass. Nothing is left running.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from reading_back import compare, read_all
from stage import Stage, drawn
from steady_load import Acknowledged, SteadyLoad, longest_pause

from lograft import Admin, Record
from lograft.testing import TestingCluster, cluster

TOPIC = "orders"
PARTITIONS = 3
BEFORE_SECONDS = 4
AFTER_SECONDS = 6
SPARK_SECONDS = 180
_BAR_SECONDS = 0.25


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without-spark", action="store_true", help="skip Spark")
    options = parser.parse_args()
    stage = Stage()
    with _three_nodes(stage) as running, Admin(running.bootstrap) as admin:
        with stage.act(f"Create topic {TOPIC!r}: {PARTITIONS} partitions, each with a replica on all three nodes"):
            admin.create_topic(TOPIC, partitions=PARTITIONS, replicas=3)
            admin.wait_for_topic(TOPIC)
            _show_partitions(stage, admin)
        acknowledged = _kill_a_leader(stage, running, admin)
        records = _read_back(stage, running.bootstrap, acknowledged)
        with stage.act("Restart the node; it catches up"):
            running.restart(_missing(admin))
            admin.wait_for_topic(TOPIC)
            _show_partitions(stage, admin)
        if not options.without_spark:
            _count_with_spark(stage, running.bootstrap, records)
    has_held = stage.conclude()
    print("\nAll checks passed. Nothing is left running; `make up` starts a cluster that keeps running." if has_held
          else "\nSome checks FAILED.")  # fmt: skip
    return 0 if has_held else 1


@contextmanager
def _three_nodes(stage: Stage) -> Iterator[TestingCluster]:
    """Run a cluster of three nodes for the duration of the block."""
    with ExitStack() as lasting:
        with stage.act("Start three nodes as processes on this machine"):
            running = lasting.enter_context(cluster(nodes=3))
            stage.tell(f"ready at {running.bootstrap}")
        yield running


def _show_partitions(stage: Stage, admin: Admin) -> None:
    stage.tell("partition  leader  in sync")
    for partition in admin.describe_topic(TOPIC).partitions:
        in_sync = ", ".join(map(str, sorted(partition.isr)))
        stage.tell(f"{partition.number:>9}  {partition.leader or '-':>6}  {in_sync}")


def _missing(admin: Admin) -> int:
    (partition, *_) = admin.describe_topic(TOPIC).partitions
    (missing,) = set(partition.replicas) - set(partition.isr)
    return missing


def _kill_a_leader(stage: Stage, running: TestingCluster, admin: Admin) -> list[Acknowledged]:
    with stage.act("Write with acks=all, and kill -9 a leader meanwhile"):
        with SteadyLoad(running.bootstrap, TOPIC) as load:
            _watch(stage, load, lambda: load.seconds >= BEFORE_SECONDS)
            victim = admin.describe_topic(TOPIC).partitions[0].leader
            assert victim is not None
            killed_seconds = load.seconds
            running.kill(victim)
            stage.tell(f"kill -9 of node {victim}, which led partition 0, after {len(load.acknowledged):,} records")
            _watch(stage, load, lambda: load.seconds >= killed_seconds + AFTER_SECONDS)
        _tell_of_pause(stage, load, killed_seconds)
    return load.acknowledged


def _watch(stage: Stage, load: SteadyLoad, is_over: Callable[[], bool]) -> None:
    while not is_over():
        stage.show(f"{len(load.acknowledged):,} of {load.sent:,} records acknowledged")
        time.sleep(0.1)


def _tell_of_pause(stage: Stage, load: SteadyLoad, killed_seconds: float) -> None:
    times = sorted(one.seconds for one in load.acknowledged if one.partition == 0)
    stage.tell(f"acknowledgements in partition 0, one bar per {_BAR_SECONDS:g} s:")
    stage.tell(drawn(_counts(times)))
    pause = longest_pause(times, killed_seconds)
    how_long = f"for {pause:.2f} s, until another leader was elected" if pause is not None else "and did not resume"
    stage.check("writes paused", how_long, holds=pause is not None)
    failed = len(load.failed)
    stage.check("records sent", f"{load.sent:,}, {failed:,} of them failed", holds=not failed and load.sent > 0)


def _counts(times: list[float]) -> list[int]:
    bars = [0] * (int(max(times, default=0) / _BAR_SECONDS) + 1)
    for seconds in times:
        bars[int(seconds / _BAR_SECONDS)] += 1
    return bars[:-1]  # the last one is incomplete


def _read_back(stage: Stage, bootstrap: str, acknowledged: list[Acknowledged]) -> list[Record]:
    with stage.act("Read all records, and compare them with the acknowledged ones"):
        found = compare(read_all(bootstrap, TOPIC), acknowledged)
        stage.check(
            "acknowledged records", f"{len(acknowledged):,}: {found.lost} lost, {found.twice} duplicated, "
            f"{found.elsewhere} at another offset, {found.out_of_order} out of order",
            holds=found.is_good and bool(acknowledged),
        )  # fmt: skip
    return found.records


def _count_with_spark(stage: Stage, bootstrap: str, records: list[Record]) -> None:
    """Read the middle half of each partition, to show that Spark reads only the requested range."""
    ends = {number: 1 + max(one.offset for one in records if one.partition == number) for number in range(PARTITIONS)}
    starting = {str(number): end // 4 for number, end in ends.items()}
    ending = {str(number): 3 * end // 4 for number, end in ends.items()}
    wanted = sum(ending[number] - starting[number] for number in starting)
    with stage.act("Read a range of offsets with Spark"):
        program = Path(__file__).with_name("spark_count.py")
        ranges = (json.dumps({TOPIC: offsets}) for offsets in (starting, ending))
        try:
            done = subprocess.run(
                [sys.executable, str(program), bootstrap, TOPIC, *ranges],
                capture_output=True, text=True, timeout=SPARK_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            stage.check("Spark", f"did not end within {SPARK_SECONDS} s", holds=False)
            return
        if "JAVA_GATEWAY_EXITED" in done.stderr or "Unable to locate a Java" in done.stderr:
            stage.tell("Java 17 or newer not found: install it, or set JAVA_HOME, to run this part")
            stage.note("Spark", "skipped: Java 17 or newer not found")
            return
        if done.returncode:
            stage.check("Spark", "\n".join(done.stderr.splitlines()[-5:]), holds=False)
            return
        found = int(done.stdout.split()[-1])
        stage.check("Spark counted", f"{found:,} records in a range of {wanted:,}", holds=found == wanted)


if __name__ == "__main__":
    sys.exit(main())
