"""The methods of `lograft.v1.Groups`, by their gRPC paths. Pure."""

_GROUPS = "/lograft.v1.Groups/"

FIND_COORDINATOR = _GROUPS + "FindCoordinator"
HEARTBEAT = _GROUPS + "Heartbeat"
COMMIT_OFFSETS = _GROUPS + "CommitOffsets"
FETCH_OFFSETS = _GROUPS + "FetchOffsets"
DELETE_OFFSETS = _GROUPS + "DeleteOffsets"
LIST_GROUPS = _GROUPS + "ListGroups"
DESCRIBE_GROUPS = _GROUPS + "DescribeGroups"
DELETE_GROUPS = _GROUPS + "DeleteGroups"
