"""The plugin that pytest loads once lograft is installed. It imports nothing else before it is used."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from lograft.testing import TestingCluster


@pytest.fixture(scope="session")
def lograft_cluster() -> "Iterator[TestingCluster]":
    """A cluster of one node, at `lograft_cluster.bootstrap`. All tests share it: give topics names of their own."""
    from lograft.testing import cluster

    with cluster() as running:
        yield running
