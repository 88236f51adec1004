"""The first records of a cluster's metadata, written by the first active controller."""

import asyncio
from collections.abc import Mapping

from lograft.metadata.config.effective_settings import CLUSTER
from lograft.metadata.controller.active_controller import ActiveController
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.records import ConfigChanged, FeatureLevelChanged
from lograft.raft.driver.observers import NodeObserver
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.clock import Clock
from lograft.runtime.observability.logging import get_logger

log = get_logger(__name__)

_RETRY_MS = 100

MIN_FEATURE_LEVEL = 1
FEATURE_LEVEL = 1
"""The least and the greatest level that this version works with; new clusters get the greatest."""


def begin_cluster(image: ClusterImage, settings: Mapping[str, str]) -> Decision[int]:
    """Return the feature level of the cluster. A new cluster gets `settings`, which are checked, as its
    configuration."""
    if image.feature_level > 0:
        return Decision((), image.feature_level)
    configs = [ConfigChanged(CLUSTER, key, value) for key, value in sorted(settings.items())]
    return Decision((FeatureLevelChanged(FEATURE_LEVEL), *configs), FEATURE_LEVEL)


class InitialRecords(NodeObserver):
    """Observes the node after the controller does. `settings`: the configuration of a new cluster."""

    def __init__(self, clock: Clock, controller: ActiveController, settings: Mapping[str, str]) -> None:
        self._clock = clock
        self._controller = controller
        self._settings = settings
        self._is_taken = asyncio.Event()

    def leadership_taken(self, term: int) -> None:
        self._is_taken.set()

    async def run(self) -> None:
        """Write the first records whenever this node takes office, until cancelled. If the office is lost meanwhile,
        the next leader does it."""
        while True:
            await self._is_taken.wait()
            self._is_taken.clear()
            if self._controller.image.feature_level == 0:
                await self._begin()

    async def _begin(self) -> None:
        try:
            level = (await self._controller.submit(lambda image: begin_cluster(image, self._settings))).answer
        except ControllerError as error:
            log.info("cluster_not_begun", reason=error.message)
            await self._clock.sleep_ms(_RETRY_MS)
            if self._controller.is_active:
                self._is_taken.set()
        else:
            log.info("cluster_begun", feature_level=level, settings=dict(self._settings))
