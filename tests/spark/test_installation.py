"""What is needed for `format("lograft")`, and what one is told if it is not there. Each is a program of its own."""

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from support.programs import Program
from support.spark_topics import QUICK_JAVA, SparkTopics

PROGRAM = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config(
    "spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
options = {"lograft.bootstrap.servers": sys.argv[1], "subscribe": "found"}
print("COUNTED", spark.read.format("lograft").options(**options).load().count())
"""


EXAMPLE = Path(__file__).parents[2] / "examples" / "spark" / "word_count.py"
Done = subprocess.CompletedProcess[str]


def start(directory: Path, *arguments: str, **environment: str) -> Program:
    """From another working directory, with nothing but what is installed."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK", "PYTHON"))
    }
    return Program(
        sys.executable, *arguments, cwd=directory, stderr=subprocess.PIPE,
        env={**inherited, "SPARK_LOCAL_IP": "127.0.0.1", "JDK_JAVA_OPTIONS": QUICK_JAVA, **environment},
    )  # fmt: skip


def finish(process: Program) -> Done:
    with process:
        output, errors = process.communicate(timeout=120)
    return Done(process.args, process.returncode, output, errors)


@pytest.fixture(scope="module")
def programs(topics: SparkTopics, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    """What came of an example as a user runs it, and of a program that has another Python in its workers; both at once,
    for each takes a while."""
    topics.create("found")
    topics.store("found", [(None, b"the quick brown fox", 0), (None, b"the end", 1)])
    directory = tmp_path_factory.mktemp("elsewhere")
    other = directory / "other-python"  # it has pyspark and Arrow, but reads no .pth file: lograft is not there
    site = sysconfig.get_path("purelib")
    other.write_text(f'#!/bin/sh\nPYTHONPATH="{site}:$PYTHONPATH" exec "{sys.executable}" -S "$@"\n')
    other.chmod(0o755)
    with (
        start(directory, str(EXAMPLE), "--bootstrap", topics.bootstrap, "--topic", "found") as example,
        start(directory, "-c", PROGRAM, topics.bootstrap, PYSPARK_PYTHON=str(other)) as without,
    ):
        return {"example": finish(example), "other": finish(without)}


def test_the_format_is_found_from_anywhere(programs: dict[str, Done]) -> None:
    """And so a program runs from the command line, with nothing set for it."""
    assert programs["example"].returncode == 0, programs["example"].stderr
    assert re.search(r"\|the *\|2 *\|", programs["example"].stdout), programs["example"].stdout


def test_workers_with_a_python_that_lacks_lograft_do_not_find_the_format(programs: dict[str, Done]) -> None:
    """Spark looks for formats with the workers' Python, and says only that there is none: set PYSPARK_PYTHON."""
    done = programs["other"]
    assert done.returncode == 1
    assert "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: lograft" in done.stderr, done.stderr


def without_java(directory: Path) -> dict[str, str]:
    """A PATH with what Spark's scripts need, but no Java."""
    tools = directory / "tools"
    tools.mkdir()
    for name in ("bash", "sh", "dirname", "env", "ps", "uname", "cat"):
        for folder in ("/bin", "/usr/bin"):
            if Path(folder, name).exists() and not (tools / name).exists():
                (tools / name).symlink_to(Path(folder, name))
    return {"PATH": str(tools), "JAVA_HOME": ""}


def test_without_java_pyspark_says_so(topics: SparkTopics, tmp_path: Path) -> None:
    done = finish(start(tmp_path, "-c", PROGRAM, topics.bootstrap, **without_java(tmp_path)))
    assert done.returncode == 1
    assert "JAVA_HOME is not set" in done.stderr, done.stderr


def test_without_java_the_tests_of_spark_say_what_to_do(tmp_path: Path) -> None:
    here = Path(__file__)
    test = f"{here}::test_the_format_is_found_from_anywhere"
    done = finish(
        start(here.parents[2], "-m", "pytest", "-q", "-p", "no:cacheprovider", test, **without_java(tmp_path))
    )
    assert "Spark needs Java 17 or later, and there is none: install one, or set JAVA_HOME" in done.stdout + done.stderr
    assert done.returncode == 3
