"""How descriptors are shared out: whatever the limit, connections leave enough for the data."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lograft.broker.node.descriptors import Descriptors, share_out


def taken(shares: Descriptors) -> int:
    return shares.clients.total + shares.nodes.total + shares.controllers.total + shares.http


@pytest.mark.parametrize(
    ("limit", "clients", "nodes", "files"),
    [(400, 200, 25, 138), (1024, 512, 64, 352), (20_000, 10_000, 1000, 7900), (1_048_576, 10_000, 1000, 1_036_476)],
)
def test_half_is_for_clients_and_no_more_than_they_need(limit: int, clients: int, nodes: int, files: int) -> None:
    shares = share_out(limit, 1)
    assert (shares.clients.total, shares.nodes.total, shares.files) == (clients, nodes, files)
    assert shares.clients.per_address == clients // 2


def test_an_operator_decides_as_far_as_there_are_so_many() -> None:
    shares = share_out(20_000, 1, clients=300, per_address=100)
    assert (shares.clients.total, shares.clients.per_address) == (300, 100)
    greedy = share_out(20_000, 1, clients=1_000_000, per_address=1_000_000)
    assert greedy.clients.total == greedy.clients.per_address == 15_400
    assert greedy.files == 2500


@given(
    limit=st.integers(256, 2_000_000),
    directories=st.integers(1, 50),
    clients=st.none() | st.integers(1, 1_000_000),
    per_address=st.none() | st.integers(1, 1_000_000),
)
def test_what_is_shared_out_is_there(
    limit: int, directories: int, clients: int | None, per_address: int | None
) -> None:
    shares = share_out(limit, directories, clients, per_address)
    assert taken(shares) + shares.files <= limit
    assert shares.files >= max(64, limit // 8)
    assert 1 <= shares.clients.per_address <= shares.clients.total
    assert shares.segments >= 8
    assert shares.segments * directories <= max(shares.files // 4, 8 * directories)
