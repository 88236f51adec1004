"""The whole story in about a minute: a cluster of three, a leader killed in mid-stream, nothing lost, Spark.

python examples/demo/demo.py [--without-spark]

The exit code is 0 only if all of it held. Nothing is left running.
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
    parser.add_argument("--without-spark", action="store_true", help="leave Spark out")
    options = parser.parse_args()
    stage = Stage()
    with _three_nodes(stage) as running, Admin(running.bootstrap) as admin:
        with stage.act(f"A topic, {TOPIC!r}: {PARTITIONS} partitions, each on all three nodes"):
            admin.create_topic(TOPIC, partitions=PARTITIONS, replicas=3)
            admin.wait_for_topic(TOPIC)
            _show_partitions(stage, admin)
        acknowledged = _kill_a_leader(stage, running, admin)
        records = _read_back(stage, running.bootstrap, acknowledged)
        with stage.act("The node comes back, and catches up"):
            running.restart(_missing(admin))
            admin.wait_for_topic(TOPIC)
            _show_partitions(stage, admin)
        if not options.without_spark:
            _count_with_spark(stage, running.bootstrap, records)
    has_held = stage.conclude()
    print("\nAll of it held. Nothing is left running; `make up` starts a cluster that stays." if has_held
          else "\nNOT all of it held.")  # fmt: skip
    return 0 if has_held else 1


@contextmanager
def _three_nodes(stage: Stage) -> Iterator[TestingCluster]:
    """For as long as the block lasts."""
    with ExitStack() as lasting:
        with stage.act("Three nodes, real processes on this machine"):
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
    with stage.act("A producer, acks=all; and kill -9 of a leader in mid-stream"):
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
    stage.tell(f"acknowledged in partition 0, a bar for {_BAR_SECONDS:g} s:")
    stage.tell(drawn(_counts(times)))
    pause = longest_pause(times, killed_seconds)
    how_long = f"{pause:.2f} s, then went on with another leader" if pause is not None else "for good"
    stage.check("writes paused", how_long, holds=pause is not None)
    failed = len(load.failed)
    stage.check("records sent", f"{load.sent:,}, of which {failed:,} failed", holds=not failed and load.sent > 0)


def _counts(times: list[float]) -> list[int]:
    bars = [0] * (int(max(times, default=0) / _BAR_SECONDS) + 1)
    for seconds in times:
        bars[int(seconds / _BAR_SECONDS)] += 1
    return bars[:-1]  # the last one is not over


def _read_back(stage: Stage, bootstrap: str, acknowledged: list[Acknowledged]) -> list[Record]:
    with stage.act("Everything is read back, and compared with what was acknowledged"):
        found = compare(read_all(bootstrap, TOPIC), acknowledged)
        stage.check(
            "acknowledged records", f"{len(acknowledged):,}: {found.lost} lost, {found.twice} twice, "
            f"{found.elsewhere} elsewhere, {found.out_of_order} out of order",
            holds=found.is_good and bool(acknowledged),
        )  # fmt: skip
    return found.records


def _count_with_spark(stage: Stage, bootstrap: str, records: list[Record]) -> None:
    """The middle half of each partition: a range of offsets that was chosen, not all there is."""
    ends = {number: 1 + max(one.offset for one in records if one.partition == number) for number in range(PARTITIONS)}
    starting = {str(number): end // 4 for number, end in ends.items()}
    ending = {str(number): 3 * end // 4 for number, end in ends.items()}
    wanted = sum(ending[number] - starting[number] for number in starting)
    with stage.act("Spark reads a range of offsets"):
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
            stage.tell("there is no Java 17 or newer: install one, or set JAVA_HOME, to see this part")
            stage.note("Spark", "left out: no Java 17 or newer")
            return
        if done.returncode:
            stage.check("Spark", "\n".join(done.stderr.splitlines()[-5:]), holds=False)
            return
        found = int(done.stdout.split()[-1])
        stage.check("Spark counted", f"{found:,} records in a range of {wanted:,}", holds=found == wanted)


if __name__ == "__main__":
    sys.exit(main())
