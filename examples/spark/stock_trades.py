"""Aggregate stock trades: the lowest ask, the number of trades and the average ask per ticker, in windows of five
seconds that begin every second, by event time.

lograft create topic trades --partitions 3
lograft create topic ask-prices --partitions 3
echo '{"ticker": "ACME", "ask": 12.5, "time": "2026-01-05T09:30:00.250Z"}' | lograft produce trades --key-field ticker
python examples/spark/stock_trades.py --bootstrap localhost:9092 --checkpoint /tmp/ask-prices

The watermark trails the latest trade. A window is written once, when the watermark has passed its end; a late trade
counts only in windows that are not written yet. Restarted with the same checkpoint, the query continues, and each
window is in the target topic exactly once.
"""

import argparse
from collections.abc import Sequence

from local_session import local_session
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StreamingQuery

TRADE = "ticker string, ask double, time timestamp"


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--topic", default="trades")
    parser.add_argument("--target", default="ask-prices")
    parser.add_argument("--checkpoint", required=True, help="a directory for this query only")
    parser.add_argument("--watermark", default="10 seconds", help="how late a trade may be")
    parser.add_argument("--available-now", action="store_true", help="stop after reading all current records")
    return parser.parse_args(arguments)


def read_trades(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    records = (
        spark.readStream.format("lograft")
        .schema("value binary")
        .option("lograft.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    trade = sf.from_json(sf.col("value").cast("string"), TRADE)
    # Drop invalid trades, which become nulls: they must not stop the query.
    return records.select(trade.alias("trade")).select("trade.*").dropna()


def ask_prices(trades: DataFrame, watermark: str) -> DataFrame:
    return (
        trades.withWatermark("time", watermark)
        .groupBy(sf.window("time", "5 seconds", "1 second"), "ticker")
        .agg(sf.min("ask").alias("lowest"), sf.count("ask").alias("trades"), sf.avg("ask").alias("average"))
    )


def as_records(prices: DataFrame) -> DataFrame:
    value = sf.struct("ticker", "window.start", "window.end", "lowest", "trades", "average")
    return prices.select(sf.col("ticker").alias("key"), sf.to_json(value).alias("value"))


def start(spark: SparkSession, options: argparse.Namespace) -> StreamingQuery:
    prices = ask_prices(read_trades(spark, options.bootstrap, options.topic), options.watermark)
    writer = (
        as_records(prices)
        .writeStream.format("lograft")
        .option("lograft.bootstrap.servers", options.bootstrap)
        .option("topic", options.target)
        .option("checkpointLocation", options.checkpoint)
    )
    trigger = {"availableNow": True} if options.available_now else {"processingTime": "1 second"}
    return writer.trigger(**trigger).start()


def main(spark: SparkSession, options: argparse.Namespace) -> None:
    start(spark, options).awaitTermination()


if __name__ == "__main__":
    main(local_session("stock trades"), parse())
