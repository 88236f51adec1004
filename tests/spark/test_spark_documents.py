"""What the documents tell Spark's users to type, typed."""

import re
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lograft import Admin, Producer
from lograft.testing import TestingCluster

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTED = "localhost:9092"


def blocks(document: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / document).read_text(), re.DOTALL | re.MULTILINE)


def run(text: str, names: dict[str, object], bootstrap: str, tmp_path: Path) -> None:
    text = text.replace(DOCUMENTED, bootstrap).replace("/tmp/checkpoints", str(tmp_path))
    exec(compile(text, "a block of a document", "exec"), names)


def test_blocks_run_one_after_the_other(
    spark: SparkSession, cluster: TestingCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, object] = {}
    for block in blocks("docs/spark.md"):
        run(block, names, cluster.bootstrap, tmp_path)
    assert names["spark"] is spark
    told = capsys.readouterr().out.splitlines()
    assert [line for line in told if re.match(r"\d|\[", line)] == [
        "1000 rows",
        "10 rows of partition 0",
        "8 partitions of Spark",
        str(sum(range(1000))),
        "50 rows, and no others were read",
        "[400, 400, 200] rows a batch",
        "200 rows",
        "1200 rows now",
    ]
    assert len([line for line in told if line.endswith("lag: 0")]) == 3


def test_push_down_is_for_one_query_as_it_is_told(spark: SparkSession, cluster: TestingCluster) -> None:
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic("trap", partitions=2)
    with Producer(cluster.bootstrap) as producer:
        for partition in range(2):
            producer.send("trap", b"", partition=partition)
    reader = spark.read.format("lograft").options(
        **{"lograft.bootstrap.servers": cluster.bootstrap, "subscribe": "trap"}
    )
    plain, narrow = reader.load(), reader.option("pushDown", "true").load()
    assert [plain.where("partition = 1").count(), plain.count()] == [1, 2]
    assert narrow.where("partition = 1").count() == 1
    with pytest.raises(
        PySparkException, match=r"a load\(\) with pushDown is for one query: .* narrowed to partition = 1"
    ):
        narrow.count()


@pytest.mark.parametrize("document", ["README.md", "docs/quickstart.md"])
def test_first_pages_show_spark(
    spark: SparkSession,
    cluster: TestingCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    document: str,
) -> None:
    topic = f"orders-of-{Path(document).stem}"
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(topic, partitions=1)
    with Producer(cluster.bootstrap) as producer:
        producer.send_many(topic, [b"one", b"two"])
    (block,) = [block for block in blocks(document) if "spark." in block]
    run(block.replace('"orders"', f'"{topic}"'), {"spark": spark}, cluster.bootstrap, tmp_path)
    assert re.search(r"\| *0\| *2\|", capsys.readouterr().out)
