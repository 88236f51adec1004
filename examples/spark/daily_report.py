"""Report the number and total amount of a day's orders, by country and hour. The default is yesterday.

lograft create topic orders --partitions 3
lograft create topic order-report
echo '{"country": "FR", "amount": 12.5, "at": "2026-01-05T09:30:00Z"}' | lograft produce orders --timestamp-field at
python examples/spark/daily_report.py --bootstrap localhost:9092 --day 2026-01-05 --target order-report

The day's start and end are resolved to offsets, so only that part of the topic is read. Timestamps in a partition need
not be in order: the program reads some minutes beyond midnight, and filters out the records of other days.
"""

import argparse
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta

from local_session import local_session
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

ORDER = "country string, amount double"


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--day", type=date.fromisoformat, default=yesterday, help="in UTC [default: yesterday]")
    parser.add_argument("--slack-minutes", type=int, default=15, help="how far timestamps may be out of order")
    parser.add_argument("--target", help="a topic to write the report to, in addition to the console")
    return parser.parse_args(arguments)


def epoch_ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def read_orders(spark: SparkSession, bootstrap: str, topic: str, day: date, slack: timedelta) -> DataFrame:
    begin = datetime.combine(day, time(), UTC)
    end = begin + timedelta(days=1)
    records = (
        spark.read.format("lograft")
        .schema("value binary, timestamp timestamp")
        .option("lograft.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingTimestamp", epoch_ms(begin))
        .option("endingTimestamp", epoch_ms(end + slack))
        .option("startingOffsetsByTimestampStrategy", "latest")  # skip partitions without orders that late
        .load()
    )
    is_of_the_day = (sf.col("timestamp") >= sf.lit(begin)) & (sf.col("timestamp") < sf.lit(end))
    order = sf.from_json(sf.col("value").cast("string"), ORDER)
    return records.where(is_of_the_day).select("timestamp", order.alias("order")).select("timestamp", "order.*")


def report(orders: DataFrame) -> DataFrame:
    hour = (sf.unix_seconds("timestamp") % 86400 / 3600).cast("int")  # in UTC, independent of the session's time zone
    return (
        orders.groupBy("country", hour.alias("hour"))
        .agg(sf.count("*").alias("orders"), sf.round(sf.sum("amount"), 2).alias("amount"))
        .orderBy("country", "hour")
    )


def main(spark: SparkSession, options: argparse.Namespace) -> None:
    slack = timedelta(minutes=options.slack_minutes)
    orders = read_orders(spark, options.bootstrap, options.topic, options.day, slack)
    table = report(orders).cache()  # shown and written, but read only once
    table.show(1000, truncate=False)
    if options.target is not None:
        value = sf.to_json(sf.struct(sf.lit(options.day).alias("day"), "*"))
        (
            table.select(sf.col("country").alias("key"), value.alias("value"))
            .write.format("lograft")
            .mode("append")
            .option("lograft.bootstrap.servers", options.bootstrap)
            .option("topic", options.target)
            .option("exactlyOnce", "true")  # all of the report or nothing
            .save()
        )


if __name__ == "__main__":
    main(local_session("daily report"), parse())
