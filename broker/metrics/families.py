"""All metrics of a node. `docs/metrics.md` explains how to use them. Pure."""

from lograft.runtime.observability.prometheus_text import Family, MetricKind


def _counter(name: str, text: str, *labels: str) -> Family:
    return Family(name, MetricKind.COUNTER, text, labels)


def _gauge(name: str, text: str, *labels: str) -> Family:
    return Family(name, MetricKind.GAUGE, text, labels)


def _histogram(name: str, text: str, *labels: str) -> Family:
    return Family(name, MetricKind.HISTOGRAM, text, labels)


# -- the process

BUILD_INFO = _gauge("lograft_build_info", "Always 1; the version is in the label.", "version")
READY = _gauge("lograft_node_ready", "Whether the node does all that is expected of it, as /readyz says.")
LOOP_LAG = _histogram("lograft_event_loop_lag_seconds", "How late the event loop was, looked at twice a second.")
CPU = _counter("process_cpu_seconds_total", "CPU time of the process, in user and system mode.")
RESIDENT = _gauge("process_resident_memory_bytes", "Memory that the process has in RAM.")
OPEN_FILES = _gauge("process_open_fds", "Open file descriptors.")
MAX_FILES = _gauge("process_max_fds", "How many file descriptors may be open.")
STARTED = _gauge("process_start_time_seconds", "When the process started, in seconds since 1970.")
VIRTUAL = _gauge("process_virtual_memory_bytes", "Virtual memory of the process.")
PYTHON_INFO = _gauge("python_info", "Always 1; the labels name the interpreter.", "implementation", "version")
GC_COLLECTIONS = _counter(
    "python_gc_collections_total", "Runs of the garbage collector over a generation.", "generation"
)
GC_COLLECTED = _counter("python_gc_objects_collected_total", "Objects the garbage collector freed.", "generation")
GC_UNCOLLECTABLE = _counter(
    "python_gc_objects_uncollectable_total", "Objects the garbage collector found and could not free.", "generation"
)

# -- requests

REQUESTS = _counter(
    "lograft_requests_total", "Calls, and messages on streams but for signs of life.", "server", "method"
)
REQUEST_ERRORS = _counter(
    "lograft_request_errors_total", "Calls that failed, and errors told on streams.", "server", "method", "code"
)
REQUEST_SECONDS = _histogram(
    "lograft_request_duration_seconds",
    "Calls with one answer, from beginning to end, but for what they were asked to wait for.",
    "server",
    "method",
)
OPEN_STREAMS = _gauge("lograft_open_streams", "Calls and streams that are being served.", "server", "method")
SLOW_REQUESTS = _counter(
    "lograft_slow_requests_total", "Requests that took longer than slow.request.ms.", "server", "method"
)

CONNECTIONS = _gauge("lograft_connections", "Connections that are open, counted once a second.", "listener")
CONNECTIONS_REFUSED = _counter(
    "lograft_connections_refused_total", "Connections ended because their address had too many.", "listener"
)
NODES_NOT_BELIEVED = _counter(
    "lograft_nodes_not_believed_total", "Streams that claimed to be a node's and proved no knowledge of the secret."
)

BUFFER_LIMIT = _gauge("lograft_network_buffer_limit_bytes", "What may be held for clients: network_buffer_bytes.")
BUFFER_BYTES = _gauge("lograft_network_buffer_bytes", "What clients sent and is not stored, and what is sent to them.")
BUFFER_WAITING = _gauge("lograft_network_buffer_waiting", "Streams that wait for room there.")
BUFFER_WAITS = _counter("lograft_network_buffer_waits_total", "How often a stream had to wait for room there.")
READERS_CUT_OFF = _counter(
    "lograft_slow_readers_cut_off_total", "Streams ended that took nothing while others waited for room."
)

# -- records

BYTES_IN = _counter("lograft_topic_bytes_in_total", "Batches stored for clients, as leader.", "topic")
RECORDS_IN = _counter("lograft_topic_records_in_total", "Records stored for clients, as leader.", "topic")
BYTES_OUT = _counter("lograft_topic_bytes_out_total", "Batches sent to clients that read.", "topic")
RECORDS_OUT = _counter(
    "lograft_topic_records_out_total", "Records sent to clients that read, counted by offsets.", "topic"
)
LOG_SIZE = _gauge("lograft_log_size_bytes", "Segments of the topic's replicas on this broker.", "topic")
REPLICATED_IN = _counter("lograft_replication_bytes_in_total", "Batches that came from leaders.")
REPLICATED_OUT = _counter("lograft_replication_bytes_out_total", "Batches that were sent to followers.")
PRODUCE_SECONDS = _histogram(
    "lograft_produce_wait_seconds", "A batch, from its arrival until it was as safe as asked for, or refused."
)
FETCH_SECONDS = _histogram(
    "lograft_fetch_wait_seconds", "For records that somebody waited for: from commit to sending."
)
IN_FLIGHT = _gauge("lograft_produce_in_flight_bytes", "Batches that came and are not answered yet.")

# -- disks

SYNC_SECONDS = _histogram("lograft_disk_sync_seconds", "Fsyncs of logs, all of a round together.", "directory")
DISK_QUEUE = _gauge("lograft_disk_queued_bytes", "What waits to be written to logs.", "directory")
DISK_FAILED = _gauge("lograft_disk_failed", "Whether writing there has failed, which ends its use.", "directory")

DISK_FREE = _gauge("lograft_disk_free_bytes", "What is left on the disk of a data directory.", "directory")
DISK_TOTAL = _gauge("lograft_disk_total_bytes", "How large the disk of a data directory is.", "directory")
DISK_RESERVE = _gauge(
    "lograft_disk_reserve_bytes", "With less left on the disk, no records are taken in the directory.", "directory"
)
DISK_FULL = _gauge("lograft_disk_full", "Whether no records are taken there for want of room.", "directory")

# -- replicas

ACTIVE = _gauge(
    "lograft_broker_active", "Whether the active controller takes the broker for a live one; 0 if none is heard."
)
METADATA_INDEX = _gauge("lograft_broker_metadata_index", "How much of the metadata log the broker has applied.")
PARTITIONS = _gauge("lograft_partitions", "Partitions with a replica on this broker.")
LED = _gauge("lograft_partitions_led", "Partitions that this broker leads.")
UNDER_REPLICATED = _gauge(
    "lograft_partitions_under_replicated", "Partitions led here of which not all replicas are in sync."
)
UNDER_MIN_ISR = _gauge(
    "lograft_partitions_under_min_isr", "Partitions led here with too few replicas in sync to write with acks=all."
)
FOLLOWER_LAG = _gauge(
    "lograft_follower_max_lag_records", "What the follower furthest behind does not have, of any partition led here."
)
ISR_SHRINKS = _counter("lograft_isr_shrinks_total", "Replicas that left the ISR of a partition led here.")
ISR_EXPANDS = _counter("lograft_isr_expands_total", "Replicas that joined the ISR of a partition led here.")
ELECTIONS = _counter("lograft_leader_elections_total", "Times that this broker became the leader of a partition.")
UNCLEAN_ELECTIONS = _counter(
    "lograft_unclean_leader_elections_total", "Those of them in which acknowledged records may have been lost."
)

# -- groups

GROUPS = _gauge("lograft_groups", "Consumer groups that this broker coordinates.")
GROUP_MEMBERS = _gauge("lograft_group_members", "Members of a group.", "group")
GROUP_LAG = _gauge(
    "lograft_group_lag_records",
    "What a group has yet to read, of partitions for which it has committed an offset.",
    "group",
)
GROUP_LAG_UNKNOWN = _gauge(
    "lograft_group_lag_unknown_partitions",
    "Partitions that are not in the group's lag: their end is not known yet.",
    "group",
)

# -- the quorum

CONTROLLER_ACTIVE = _gauge("lograft_controller_active", "Whether this node is the active controller.")
RAFT_TERM = _gauge("lograft_raft_term", "The term that the node is in.")
RAFT_LEADER = _gauge("lograft_raft_leader_id", "The quorum's leader, as far as the node knows; -1 for none.")
RAFT_COMMIT = _gauge("lograft_raft_commit_index", "Up to where the node knows the metadata log to be committed.")
RAFT_APPLIED = _gauge("lograft_raft_applied_index", "Up to where the node has applied the metadata log.")
RAFT_LAST = _gauge("lograft_raft_last_index", "Where the node's metadata log ends.")
RAFT_PEER_LAG = _gauge(
    "lograft_raft_peer_lag_entries", "What a member of the quorum is not known to have yet; its leader tells.", "peer"
)
RAFT_PEER_SILENT = _gauge(
    "lograft_raft_peer_silent_seconds", "How long ago a member of the quorum last answered; its leader tells.", "peer"
)
RAFT_COMMIT_SECONDS = _histogram(
    "lograft_raft_commit_seconds", "A change of the metadata, from its proposal here until it was applied."
)
RAFT_APPEND_SECONDS = _histogram("lograft_raft_append_seconds", "Making part of the metadata log durable on this node.")
BROKERS = _gauge("lograft_brokers", "Registered brokers, as this controller knows it.", "state")
TOPICS = _gauge("lograft_cluster_topics", "Topics of the cluster, as this controller knows it.")
CLUSTER_PARTITIONS = _gauge("lograft_cluster_partitions", "Partitions of the cluster, as this controller knows it.")
OFFLINE = _gauge(
    "lograft_partitions_offline", "Partitions of the cluster without a leader, as this controller knows it."
)
REASSIGNING = _gauge(
    "lograft_partitions_reassigning", "Partitions on their way to other brokers, as this controller knows it."
)

FAMILIES: tuple[Family, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Family))
