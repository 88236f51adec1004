"""The gRPC paths of all methods, shared by servers and callers. Pure."""

_LOG = "/lograft.v1.Log/"

PRODUCE = _LOG + "Produce"
FETCH = _LOG + "Fetch"
READ_RANGE = _LOG + "ReadRange"
APPEND = _LOG + "Append"
READ = _LOG + "Read"
LIST_OFFSETS = _LOG + "ListOffsets"
DESCRIBE_REPLICAS = _LOG + "DescribeReplicas"
DESCRIBE_LOAD = _LOG + "DescribeLoad"
DIGEST_REPLICA = _LOG + "DigestReplica"
INIT_PRODUCER = _LOG + "InitProducer"

_CLUSTER = "/lograft.v1.Cluster/"

DESCRIBE_CLUSTER = _CLUSTER + "Describe"
WATCH_CLUSTER = _CLUSTER + "Watch"

_ADMIN = "/lograft.v1.Admin/"

CREATE_TOPICS = _ADMIN + "CreateTopics"
DELETE_TOPICS = _ADMIN + "DeleteTopics"
CREATE_PARTITIONS = _ADMIN + "CreatePartitions"
DESCRIBE_CONFIGS = _ADMIN + "DescribeConfigs"
ALTER_CONFIGS = _ADMIN + "AlterConfigs"
ALTER_REASSIGNMENTS = _ADMIN + "AlterReassignments"
LIST_REASSIGNMENTS = _ADMIN + "ListReassignments"
ELECT_LEADERS = _ADMIN + "ElectLeaders"
UNREGISTER_BROKER = _ADMIN + "UnregisterBroker"
DESCRIBE_QUORUM = _ADMIN + "DescribeQuorum"
ADD_VOTER = _ADMIN + "AddVoter"
REMOVE_VOTER = _ADMIN + "RemoveVoter"
REPLACE_VOTER = _ADMIN + "ReplaceVoter"
TRANSFER_LEADERSHIP = _ADMIN + "TransferLeadership"


_GROUPS = "/lograft.v1.Groups/"

FIND_COORDINATOR = _GROUPS + "FindCoordinator"
GROUP_HEARTBEAT = _GROUPS + "Heartbeat"
COMMIT_OFFSETS = _GROUPS + "CommitOffsets"
FETCH_OFFSETS = _GROUPS + "FetchOffsets"
DELETE_OFFSETS = _GROUPS + "DeleteOffsets"
LIST_GROUPS = _GROUPS + "ListGroups"
DESCRIBE_GROUPS = _GROUPS + "DescribeGroups"
DELETE_GROUPS = _GROUPS + "DeleteGroups"

# Between nodes.
_LINKS = "/lograft.internal.v1.NodeLinks/"

PROVE = _LINKS + "Prove"

_CONTROLLER = "/lograft.internal.v1.Controller/"

LATEST_EPOCH = _CONTROLLER + "LatestEpoch"
REGISTER = _CONTROLLER + "Register"
BROKER_HEARTBEAT = _CONTROLLER + "Heartbeat"
FOLLOW = _CONTROLLER + "Follow"
ALTER_PARTITIONS = _CONTROLLER + "AlterPartitions"
REPORT_FAILURES = _CONTROLLER + "ReportFailures"
ALLOCATE_PRODUCER_IDS = _CONTROLLER + "AllocateProducerIds"
CREATE_INTERNAL_TOPIC = _CONTROLLER + "CreateInternalTopic"
READ_INDEX = _CONTROLLER + "ReadIndex"


def is_between_nodes(method: str) -> bool:
    """Return True if the method is internal, between nodes."""
    return method.startswith("/lograft.internal.")
