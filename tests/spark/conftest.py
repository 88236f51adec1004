"""One JVM, one cluster and one Spark session for all tests here: whoever starts another waits long."""

import os
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.spark_topics import QUICK_JAVA, SparkTopics, TopicsThatAge

from lograft import Admin, testing

NO_JAVA = "Spark needs Java 17 or later, and there is none: install one, or set JAVA_HOME; then `make test-spark`"


def java_is_there() -> bool:
    home = os.environ.get("JAVA_HOME")
    return shutil.which(str(Path(home, "bin", "java")) if home else "java") is not None


@pytest.fixture(scope="session")
def starting_cluster() -> Iterator[Future[testing.TestingCluster]]:
    """It starts while the JVM does."""
    if not java_is_there():
        pytest.exit(NO_JAVA, returncode=3)
    with ExitStack() as until_the_end, ThreadPoolExecutor(1) as pool:
        yield pool.submit(until_the_end.enter_context, testing.cluster(nodes=3))


@pytest.fixture(scope="session")
def spark(starting_cluster: Future[testing.TestingCluster]) -> Iterator[SparkSession]:
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    session = (
        SparkSession.builder.master("local[2,3]")  # two at a time; a task may fail twice
        .config("spark.driver.extraJavaOptions", QUICK_JAVA)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster(starting_cluster: Future[testing.TestingCluster]) -> testing.TestingCluster:
    return starting_cluster.result()


@pytest.fixture(scope="session")
def admin(cluster: testing.TestingCluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap) as admin:
        yield admin


@pytest.fixture(scope="session")
def topics(spark: SparkSession, cluster: testing.TestingCluster, admin: Admin) -> SparkTopics:
    return SparkTopics(spark, cluster.bootstrap, admin)


@pytest.fixture(scope="session", autouse=True)
def aging(topics: SparkTopics, tmp_path_factory: pytest.TempPathFactory) -> TopicsThatAge:
    """Retention takes a minute, compaction a quarter: both begin before the first test, for the last to see."""
    return TopicsThatAge(topics, tmp_path_factory.mktemp("aging") / "checkpoint")
