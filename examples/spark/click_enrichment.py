"""Enrich page views with the user's profile and recent searches: join views with a table of profiles, and with the
searches of the preceding half hour.

lograft create topic views --partitions 3
lograft create topic searches --partitions 3
lograft create topic profiles --partitions 3 --config cleanup.policy=compact
lograft create topic enriched-views --partitions 3
echo '{"user": "ada", "country": "UK"}' | lograft produce profiles --key-field user
echo '{"user": "ada", "query": "looms", "time": "2026-01-05T09:30:00Z"}' | lograft produce searches --key-field user
echo '{"user": "ada", "page": "/looms", "time": "2026-01-05T09:31:00Z"}' | lograft produce views --key-field user
python examples/spark/click_enrichment.py --bootstrap localhost:9092 --checkpoint /tmp/enriched-views

A view is written with each search that preceded it. A view without a search is written once the watermark shows that
none can arrive. The profile is the latest record of its key: Spark reads all profiles anew for each batch, so the topic
should be small.
"""

import argparse
from collections.abc import Sequence

from local_session import local_session
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StreamingQuery

VIEW = "user string, page string, time timestamp"
SEARCH = "user string, query string, time timestamp"
PROFILE = "user string, country string"


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--views", default="views")
    parser.add_argument("--searches", default="searches")
    parser.add_argument("--profiles", default="profiles")
    parser.add_argument("--target", default="enriched-views")
    parser.add_argument("--checkpoint", required=True, help="a directory for this query only")
    parser.add_argument("--watermark", default="10 minutes", help="how late a view or a search may be")
    parser.add_argument("--available-now", action="store_true", help="stop after reading all current records")
    return parser.parse_args(arguments)


def latest_profiles(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """Return the latest profile of each user. A compacted topic keeps older records of a key for a while; a record
    without a value deletes its key."""
    records = (
        spark.read.format("lograft")
        .schema("key binary, value binary, offset long")
        .option("lograft.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .load()
    )
    # All records of a key are in one partition, so the highest offset is the latest.
    latest = records.groupBy("key").agg(sf.max_by("value", "offset").alias("value")).where("value is not null")
    return latest.select(sf.from_json(sf.col("value").cast("string"), PROFILE).alias("it")).select("it.*")


def read_events(spark: SparkSession, bootstrap: str, topic: str, of_type: str, watermark: str) -> DataFrame:
    records = (
        spark.readStream.format("lograft")
        .schema("value binary")
        .option("lograft.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    events = records.select(sf.from_json(sf.col("value").cast("string"), of_type).alias("it")).select("it.*")
    return events.dropna().withWatermark("time", watermark)


def enrich(views: DataFrame, searches: DataFrame, profiles: DataFrame) -> DataFrame:
    view, search = views.alias("view"), searches.alias("search")
    is_before = sf.expr(
        "view.user = search.user and search.time <= view.time and search.time >= view.time - interval 30 minutes"
    )
    return (
        view.join(search, is_before, "leftOuter")
        .select("view.*", "search.query", sf.col("search.time").alias("searched"))
        .join(profiles, "user", "leftOuter")
    )


def start(spark: SparkSession, options: argparse.Namespace) -> StreamingQuery:
    enriched = enrich(
        read_events(spark, options.bootstrap, options.views, VIEW, options.watermark),
        read_events(spark, options.bootstrap, options.searches, SEARCH, options.watermark),
        latest_profiles(spark, options.bootstrap, options.profiles),
    )
    value = sf.to_json(sf.struct("user", "country", "page", "time", "query", "searched"))
    writer = (
        enriched.select(sf.col("user").alias("key"), value.alias("value"))
        .writeStream.format("lograft")
        .option("lograft.bootstrap.servers", options.bootstrap)
        .option("topic", options.target)
        .option("checkpointLocation", options.checkpoint)
    )
    trigger = {"availableNow": True} if options.available_now else {"processingTime": "5 seconds"}
    return writer.trigger(**trigger).start()


def main(spark: SparkSession, options: argparse.Namespace) -> None:
    start(spark, options).awaitTermination()


if __name__ == "__main__":
    main(local_session("click enrichment"), parse())
