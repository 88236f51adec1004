"""A streaming query's progress, shown as a group."""

from uuid import UUID

import pytest

from lograft.clients.errors import GroupNotEmpty, LograftError
from lograft.clients.types import TopicPartition
from lograft.spark.common.options import StreamOptions
from lograft.spark.reading import progress_group as shown_progress
from lograft.spark.reading.progress_group import ShownProgress
from lograft.spark.reading.stream_offsets import StreamOffset

FIRST = TopicPartition("orders", 0)
REACHED = StreamOffset("source", {"orders": UUID(int=1)}, {FIRST: 7})


class FakeAdmin:
    """Answers what it is told to."""

    def __init__(self, *_: object, **__: object) -> None:
        self.refusal: LograftError | None = None
        self.asked: list[str] = []

    def alter_group_offsets(
        self, group: str, offsets: dict[TopicPartition, int]
    ) -> dict[TopicPartition, LograftError | None]:
        self.asked.append(group)
        return dict.fromkeys(offsets, self.refusal)


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    admin = FakeAdmin()
    monkeypatch.setattr(shown_progress, "Admin", lambda *_, **__: admin)
    return admin


def test_what_is_shown_already_is_not_shown_again(admin: FakeAdmin) -> None:
    progress = ShownProgress("localhost:9092", StreamOptions(group_prefix="mine"))
    progress.show(REACHED)
    progress.show(REACHED)
    assert admin.asked == ["mine-source"]


def test_a_group_that_refuses_is_told_of_and_left_alone_for_a_while(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    admin.refusal = GroupNotEmpty("it has members")
    progress = ShownProgress("localhost:9092", StreamOptions(group="billing"))
    progress.show(REACHED)
    progress.show(REACHED)
    assert [each.getMessage().split()[:2] for each in caplog.records] == [["progress_not_shown", "group='billing'"]]
    monkeypatch.setattr(progress, "_not_before_seconds", 0.0)
    progress.show(REACHED)
    assert admin.asked == ["billing", "billing"]
