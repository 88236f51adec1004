"""A registered broker. Pure."""

from dataclasses import dataclass
from enum import Enum
from uuid import UUID

from lograft.metadata.image.partition import BrokerEpoch, BrokerId


class BrokerState(Enum):
    """FENCED: in no ISR, leads nothing. ACTIVE: may lead and be in sync. SHUTTING_DOWN: keeps its replicas for the
    moment, and gets no more."""

    FENCED = 1
    ACTIVE = 2
    SHUTTING_DOWN = 3


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker's latest registration. `epoch` is new with each incarnation (process), across all brokers. `address`:
    where clients reach it; `nodes_address`: where other brokers do.

    `names_used_epochs`: the registration named the used epoch of every directory, so the broker writes the epoch down
    in each of them before it asks to be active. `version`: of lograft, for people; None: not reported.
    """

    broker_id: BrokerId
    epoch: BrokerEpoch
    incarnation: UUID
    address: str
    rack: str | None
    directories: tuple[UUID, ...]
    boot_id: str
    state: BrokerState = BrokerState.FENCED
    nodes_address: str | None = None
    names_used_epochs: bool = False
    version: str | None = None

    @property
    def is_live(self) -> bool:
        return self.state is not BrokerState.FENCED
