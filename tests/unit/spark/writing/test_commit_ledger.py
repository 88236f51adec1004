"""Which ledger will do."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from lograft.clients.errors import InvalidArgument
from lograft.spark.common.options import ClusterOptions
from lograft.spark.writing.commit_ledger import Ledger


def ledger(partitions: int) -> Ledger:
    topic = SimpleNamespace(id=UUID(int=1), partitions=list(range(partitions)))
    admin: Any = SimpleNamespace(describe_topic=lambda _: topic)
    return Ledger(admin, cast(Any, None), ClusterOptions("localhost:9092"), "query")


def test_a_ledger_that_somebody_made_too_small_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="has 3 partitions, and 4 at least are needed: add some"):
        ledger(3)
    for enough in (4, 5, 100):
        ledger(enough)
