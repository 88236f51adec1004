"""Is who asks the broker's present process? Pure."""

from lograft.metadata.image.broker import Broker
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError


def check_broker_epoch(image: ClusterImage, broker_id: BrokerId, epoch: BrokerEpoch) -> Broker:
    """The broker, whose latest registration got `epoch`. Else UNKNOWN_BROKER or STALE_BROKER_EPOCH: what a process asks
    after another one has registered in its place has no effect."""
    broker = check_registered(image, broker_id)
    if epoch != broker.epoch:
        raise ControllerError(
            errors_pb2.STALE_BROKER_EPOCH,
            f"broker {broker_id} asks with epoch {epoch}, but its latest registration has epoch {broker.epoch}: "
            "another process took over; stop this one, or let it register again",
        )
    return broker


def check_registered(image: ClusterImage, broker_id: BrokerId) -> Broker:
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise ControllerError(
            errors_pb2.UNKNOWN_BROKER,
            f"broker {broker_id} is not registered: it registers when it starts; check the id",
        )
    return broker
