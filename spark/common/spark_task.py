"""What a task knows of itself."""

from pyspark import TaskContext

_QUERY_ID = "sql.streaming.queryId"  # as Spark names it among a task's properties


def running_task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "this is done by tasks"
    return task


def query_id(task: TaskContext) -> str:
    """Of the streaming query that the task belongs to: it stays the same for as long as its checkpoint does."""
    found = task.getLocalProperty(_QUERY_ID)
    assert found is not None, "a streaming query has an id"
    return str(found)
