"""The running Spark task and its streaming query."""

from pyspark import TaskContext

_QUERY_ID = "sql.streaming.queryId"  # Spark's name for this property of a task


def running_task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "this is done by tasks"
    return task


def query_id(task: TaskContext) -> str:
    """Return the id of the task's streaming query, which stays the same as long as its checkpoint does."""
    found = task.getLocalProperty(_QUERY_ID)
    assert found is not None, "a streaming query has an id"
    return str(found)
