"""A cluster for tests: real processes on this machine, ready to connect to, gone afterwards.

from lograft import Producer
from lograft.testing import cluster

with cluster(nodes=3) as running:
    with Producer(running.bootstrap) as producer: ...
    running.kill(1)             # kill -9, and see what your program does

With pytest there is a fixture, too, `lograft_cluster`: one node, for the whole session.
"""

from lograft.clients.local.testing_cluster import ClusterFailed, TestingCluster, cluster

__all__ = ["ClusterFailed", "TestingCluster", "cluster"]
