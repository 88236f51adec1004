"""The methods of the services that controllers have, by their gRPC paths. Pure."""

_CONTROLLER = "/lograft.internal.v1.Controller/"

REGISTER = _CONTROLLER + "Register"
HEARTBEAT = _CONTROLLER + "Heartbeat"
FOLLOW = _CONTROLLER + "Follow"
ALTER_PARTITIONS = _CONTROLLER + "AlterPartitions"
REPORT_FAILURES = _CONTROLLER + "ReportFailures"
ALLOCATE_PRODUCER_IDS = _CONTROLLER + "AllocateProducerIds"
CREATE_INTERNAL_TOPIC = _CONTROLLER + "CreateInternalTopic"
READ_INDEX = _CONTROLLER + "ReadIndex"

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

_CLUSTER = "/lograft.v1.Cluster/"

DESCRIBE_CLUSTER = _CLUSTER + "Describe"
WATCH_CLUSTER = _CLUSTER + "Watch"
