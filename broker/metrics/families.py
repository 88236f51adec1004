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
READY = _gauge("lograft_node_ready", "Whether the node is ready, as reported by /readyz.")
LOOP_LAG = _histogram("lograft_event_loop_lag_seconds", "Delay of the event loop, measured twice a second.")
CPU = _counter("process_cpu_seconds_total", "CPU time of the process, by user and system mode.")
RESIDENT = _gauge("process_resident_memory_bytes", "Resident memory of the process.")
OPEN_FILES = _gauge("process_open_fds", "Number of open file descriptors.")
MAX_FILES = _gauge("process_max_fds", "Maximum number of open file descriptors.")
STARTED = _gauge("process_start_time_seconds", "Start time of the process, in seconds since the Unix epoch.")
VIRTUAL = _gauge("process_virtual_memory_bytes", "Virtual memory size of the process.")
PYTHON_INFO = _gauge("python_info", "Always 1; the labels name the interpreter.", "implementation", "version")
GC_COLLECTIONS = _counter("python_gc_collections_total", "Garbage collections, by generation.", "generation")
GC_COLLECTED = _counter("python_gc_objects_collected_total", "Objects that the garbage collector freed.", "generation")
GC_UNCOLLECTABLE = _counter(
    "python_gc_objects_uncollectable_total",
    "Objects that the garbage collector found but could not free.",
    "generation",
)

# -- requests

REQUESTS = _counter(
    "lograft_requests_total", "Requests: unary calls, and messages on streams except heartbeats.", "server", "method"
)
REQUEST_ERRORS = _counter(
    "lograft_request_errors_total", "Failed calls, and errors sent on streams.", "server", "method", "code"
)
REQUEST_SECONDS = _histogram(
    "lograft_request_duration_seconds",
    "Duration of unary calls, excluding the time that they were asked to wait.",
    "server",
    "method",
)
OPEN_STREAMS = _gauge("lograft_open_streams", "Calls and streams in progress.", "server", "method")
SLOW_REQUESTS = _counter(
    "lograft_slow_requests_total", "Requests that took longer than slow.request.ms.", "server", "method"
)

CONNECTIONS = _gauge("lograft_connections", "Open connections, counted once a second.", "listener")
CONNECTIONS_REFUSED = _counter(
    "lograft_connections_refused_total", "Connections closed because their address had too many.", "listener"
)
NODES_NOT_BELIEVED = _counter(
    "lograft_nodes_not_believed_total",
    "Streams whose caller claimed to be a node but failed to prove knowledge of the cluster secret.",
)

BUFFER_LIMIT = _gauge(
    "lograft_network_buffer_limit_bytes", "Limit of the memory held for clients: network_buffer_bytes."
)
BUFFER_BYTES = _gauge(
    "lograft_network_buffer_bytes", "Memory held for requests not yet stored and responses not yet sent."
)
BUFFER_WAITING = _gauge("lograft_network_buffer_waiting", "Streams waiting for room in the network buffer.")
BUFFER_WAITS = _counter(
    "lograft_network_buffer_waits_total", "Times that a stream had to wait for room in the network buffer."
)
READERS_CUT_OFF = _counter(
    "lograft_slow_readers_cut_off_total", "Streams closed because they read nothing while others waited for room."
)

# -- records

BYTES_IN = _counter("lograft_topic_bytes_in_total", "Batches appended for clients, as leader.", "topic")
RECORDS_IN = _counter("lograft_topic_records_in_total", "Records appended for clients, as leader.", "topic")
BYTES_OUT = _counter("lograft_topic_bytes_out_total", "Batches sent to consumers.", "topic")
RECORDS_OUT = _counter("lograft_topic_records_out_total", "Records sent to consumers, counted by offsets.", "topic")
LOG_SIZE = _gauge("lograft_log_size_bytes", "Segments of the topic's replicas on this broker.", "topic")
REPLICATED_IN = _counter("lograft_replication_bytes_in_total", "Batches replicated from leaders.")
REPLICATED_OUT = _counter("lograft_replication_bytes_out_total", "Batches replicated to followers.")
PRODUCE_SECONDS = _histogram(
    "lograft_produce_wait_seconds", "Time from a batch's arrival until it was acknowledged or refused."
)
FETCH_SECONDS = _histogram(
    "lograft_fetch_wait_seconds", "Time from commit to sending, for records that a consumer waited for."
)
IN_FLIGHT = _gauge("lograft_produce_in_flight_bytes", "Batches received but not yet acknowledged.")

# -- disks

SYNC_SECONDS = _histogram("lograft_disk_sync_seconds", "Fsyncs of logs, all of one round together.", "directory")
DISK_QUEUE = _gauge("lograft_disk_queued_bytes", "Bytes waiting to be written to logs.", "directory")
DISK_FAILED = _gauge(
    "lograft_disk_failed", "Whether a write to the directory failed, which takes it out of use.", "directory"
)

DISK_FREE = _gauge("lograft_disk_free_bytes", "Free space on the disk of a data directory.", "directory")
DISK_TOTAL = _gauge("lograft_disk_total_bytes", "Size of the disk of a data directory.", "directory")
DISK_RESERVE = _gauge(
    "lograft_disk_reserve_bytes", "Free space below which the directory accepts no records.", "directory"
)
DISK_FULL = _gauge(
    "lograft_disk_full", "Whether the directory accepts no records because its disk is full.", "directory"
)

# -- replicas

ACTIVE = _gauge(
    "lograft_broker_active", "Whether the active controller considers the broker alive; 0 if the broker reaches none."
)
METADATA_INDEX = _gauge(
    "lograft_broker_metadata_index", "Index in the metadata log up to which the broker has applied it."
)
PARTITIONS = _gauge("lograft_partitions", "Partitions with a replica on this broker.")
LED = _gauge("lograft_partitions_led", "Partitions that this broker leads.")
UNDER_REPLICATED = _gauge(
    "lograft_partitions_under_replicated", "Partitions led by this broker whose ISR lacks a replica."
)
UNDER_MIN_ISR = _gauge(
    "lograft_partitions_under_min_isr", "Partitions led by this broker whose ISR is too small for acks=all."
)
FOLLOWER_LAG = _gauge(
    "lograft_follower_max_lag_records", "Largest replication lag of a follower, over all partitions led by this broker."
)
ISR_SHRINKS = _counter("lograft_isr_shrinks_total", "Replicas that left the ISR of a partition led by this broker.")
ISR_EXPANDS = _counter("lograft_isr_expands_total", "Replicas that joined the ISR of a partition led by this broker.")
ELECTIONS = _counter("lograft_leader_elections_total", "Times that this broker became the leader of a partition.")
UNCLEAN_ELECTIONS = _counter(
    "lograft_unclean_leader_elections_total",
    "Unclean elections: those in which acknowledged records may have been lost.",
)

# -- groups

GROUPS = _gauge("lograft_groups", "Consumer groups that this broker coordinates.")
GROUP_MEMBERS = _gauge("lograft_group_members", "Members of a group.", "group")
GROUP_LAG = _gauge(
    "lograft_group_lag_records",
    "Records that a group has yet to consume, over partitions with a committed offset.",
    "group",
)
GROUP_LAG_UNKNOWN = _gauge(
    "lograft_group_lag_unknown_partitions",
    "Partitions left out of the group's lag because their end is not known yet.",
    "group",
)

# -- the quorum

CONTROLLER_ACTIVE = _gauge("lograft_controller_active", "Whether this node is the active controller.")
RAFT_TERM = _gauge("lograft_raft_term", "Current term of the node.")
RAFT_LEADER = _gauge("lograft_raft_leader_id", "Id of the quorum's leader, as known to the node; -1 if none.")
RAFT_COMMIT = _gauge("lograft_raft_commit_index", "Index up to which the node knows the metadata log to be committed.")
RAFT_APPLIED = _gauge("lograft_raft_applied_index", "Index up to which the node has applied the metadata log.")
RAFT_LAST = _gauge("lograft_raft_last_index", "Last index of the node's metadata log.")
RAFT_PEER_LAG = _gauge(
    "lograft_raft_peer_lag_entries",
    "Entries that a member of the quorum has yet to acknowledge; reported by the leader.",
    "peer",
)
RAFT_PEER_SILENT = _gauge(
    "lograft_raft_peer_silent_seconds",
    "Time since a member of the quorum last answered; reported by the leader.",
    "peer",
)
RAFT_COMMIT_SECONDS = _histogram(
    "lograft_raft_commit_seconds", "Time from the proposal of a metadata change on this node until it was applied."
)
RAFT_APPEND_SECONDS = _histogram("lograft_raft_append_seconds", "Duration of metadata log syncs on this node.")
BROKERS = _gauge("lograft_brokers", "Registered brokers, as known to this controller.", "state")
TOPICS = _gauge("lograft_cluster_topics", "Topics of the cluster, as known to this controller.")
CLUSTER_PARTITIONS = _gauge("lograft_cluster_partitions", "Partitions of the cluster, as known to this controller.")
OFFLINE = _gauge("lograft_partitions_offline", "Partitions without a leader, as known to this controller.")
REASSIGNING = _gauge("lograft_partitions_reassigning", "Partitions being reassigned, as known to this controller.")

FAMILIES: tuple[Family, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Family))
