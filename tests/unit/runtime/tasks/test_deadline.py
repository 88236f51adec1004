import asyncio
from itertools import pairwise

import pytest
from support.raft_nodes import virtual

from lograft.chaos.world.loop import VirtualClock
from lograft.proto import admin_pb2 as pb
from lograft.runtime.tasks.deadline import MAX_TIMEOUT_MS, Deadline, answer_ms, set_timeout, with_timeout


@pytest.mark.parametrize("timeout_ms", [2, 3, 10, 99, 1000, 5000, 30_000, MAX_TIMEOUT_MS])
def test_each_on_the_way_has_less_time_than_the_one_before(timeout_ms: int) -> None:
    times_ms = [timeout_ms]
    while times_ms[-1] > 1 and len(times_ms) < 5:
        times_ms.append(answer_ms(times_ms[-1]))
    assert all(inner < outer for outer, inner in pairwise(times_ms))
    assert answer_ms(1) == 1, "there is no request without any time"


@pytest.mark.parametrize(("timeout_ms", "expected_ms"), [(1000, 800), (5000, 4000), (10_000, 9000), (300_000, 299_000)])
def test_an_answer_has_a_fifth_for_its_way_back_but_no_more_than_a_second(timeout_ms: int, expected_ms: int) -> None:
    assert answer_ms(timeout_ms) == expected_ms


@virtual
async def test_a_deadline_knows_what_is_left() -> None:
    clock = VirtualClock(asyncio.get_running_loop())
    deadline = Deadline(clock, 5000)
    assert deadline.left_ms == 5000
    await clock.sleep_ms(1200)
    assert deadline.left_ms == 3800
    await clock.sleep_ms(9000)
    assert deadline.left_ms == 1


def test_a_request_says_how_long_its_answer_is_waited_for_if_it_can() -> None:
    request = pb.DeleteTopicsRequest(timeout_ms=7)
    set_timeout(request, 900)
    assert request.timeout_ms == 900
    set_timeout(request, 10**9)
    assert request.timeout_ms == MAX_TIMEOUT_MS
    set_timeout(pb.DescribeQuorumRequest(), 900)


def test_of_an_encoded_request_only_its_time_changes() -> None:
    later = b"\xfa\x06\x01y"  # a field of a later version
    data = pb.DeleteTopicsRequest(topics=[pb.TopicReference(name="orders")], timeout_ms=7).SerializeToString() + later
    changed = with_timeout(pb.DeleteTopicsRequest, data, 900)
    assert changed.startswith(data)
    request = pb.DeleteTopicsRequest.FromString(changed)
    assert ([topic.name for topic in request.topics], request.timeout_ms) == (["orders"], 900)
    assert later in request.SerializeToString()
    assert with_timeout(pb.DescribeQuorumRequest, b"", 900) == b""
