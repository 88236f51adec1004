"""Count the words of all lines in a topic, as a batch from the earliest to the latest offset.

lograft create topic lines --partitions 3
lograft produce lines -F README.md
python examples/spark/word_count.py --bootstrap localhost:9092 --topic lines

The range of offsets is fixed when the read is planned: later records are not counted, however long tasks take.
"""

import argparse
from collections.abc import Sequence

from local_session import local_session
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--topic", default="lines")
    parser.add_argument("--top", type=int, default=10, help="how many words to show")
    return parser.parse_args(arguments)


def count_words(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    lines = (
        spark.read.format("lograft")
        .schema("value binary")  # only this column is built
        .option("lograft.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .load()
    )
    words = sf.explode(sf.split(sf.lower(sf.col("value").cast("string")), r"\s+"))
    return lines.select(words.alias("word")).where("word != ''").groupBy("word").count()


def main(spark: SparkSession, options: argparse.Namespace) -> None:
    counts = count_words(spark, options.bootstrap, options.topic)
    counts.orderBy(sf.desc("count"), "word").show(options.top, truncate=False)


if __name__ == "__main__":
    main(local_session("word count"), parse())
