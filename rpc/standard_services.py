"""What every server of ours has beside its own services: health checking and reflection."""

from collections.abc import Mapping

from lograft.rpc.health import SERVICE, HealthService
from lograft.rpc.reflection import METHODS, ReflectionService, public_services
from lograft.runtime.network import Handler


def with_standard_services(handlers: Mapping[str, Handler]) -> tuple[dict[str, Handler], HealthService]:
    """The handlers with those of the standard services added, and the health that they tell of."""
    services = public_services(handlers)
    health = HealthService(services)
    # The newer reflection service has no file of its own that could be told of.
    reflection = ReflectionService([*services, *public_services([*health.handlers(), METHODS[-1]])])
    assert SERVICE not in services
    return {**handlers, **health.handlers(), **reflection.handlers()}, health
