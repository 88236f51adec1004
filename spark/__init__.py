"""The Spark data source: batch and streaming, reading and writing.

May import clients/ and what clients/ may import. Start reading at `source`. Spark finds the source through
`spark_plugin/pyspark_lograft`.
"""
