"""Does Spark keep a plan for each scan? Only then may the filters of a query narrow what is read.

Spark 4 keeps one plan for each `load()`: the one of the last filter that it pushed. All scans of that `load()` read by
it, also scans without a filter, in the same query (a join, a union, a subquery) or in a later one. Spark asks Python
for nothing when it plans a scan without a filter, and gives all tasks of a `load()` the same reader and the same
partitions. So nothing in Python can find out which scan a task reads for, and a plan that is narrowed for one scan
drops rows of the others. Stages, partitions and executions do not tell scans apart either: a sort reads one scan
twice, and an adaptive query may leave out the scan with the filter and read only the other one.

Spark 5 keeps the plan with the scan (SPARK-58551), since it pushes limits as well.
"""

from pyspark.sql.datasource import DataSourceReader


def has_plan_for_each_scan() -> bool:
    """Return whether a filter that Spark pushes for one scan leaves all other scans alone."""
    return hasattr(DataSourceReader, "pushLimit")
