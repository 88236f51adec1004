"""The methods of `lograft.v1.Log`, by their gRPC paths. Pure."""

_LOG = "/lograft.v1.Log/"

PRODUCE = _LOG + "Produce"
FETCH = _LOG + "Fetch"
READ_RANGE = _LOG + "ReadRange"
APPEND = _LOG + "Append"
READ = _LOG + "Read"
LIST_OFFSETS = _LOG + "ListOffsets"
DESCRIBE_REPLICAS = _LOG + "DescribeReplicas"
DIGEST_REPLICA = _LOG + "DigestReplica"
INIT_PRODUCER = _LOG + "InitProducer"
