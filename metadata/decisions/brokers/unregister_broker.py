"""The decision to forget a broker that will not return. Pure."""

from lograft.metadata.decisions.broker_checks import check_registered
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId
from lograft.metadata.image.records import BrokerUnregistered
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError


def unregister_broker(image: ClusterImage, broker_id: BrokerId) -> Decision[None]:
    """No broker of that id. BROKER_IN_USE while it lives, or has replicas: they may be the last copies."""
    broker = check_registered(image, broker_id)
    if broker.is_live:
        raise ControllerError(
            errors_pb2.BROKER_IN_USE, f"broker {broker_id} is running: stop it first, or it would register again"
        )
    replicas = image.replica_count(broker_id)
    if replicas:
        raise ControllerError(
            errors_pb2.BROKER_IN_USE,
            f"broker {broker_id} has {replicas} {'replica' if replicas == 1 else 'replicas'}: reassign them to other "
            "brokers first",
        )
    return Decision((BrokerUnregistered(broker_id),), None)
