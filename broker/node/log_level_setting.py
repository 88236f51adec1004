"""How much a node logs: what `log.level` of its broker says, from the moment that it does; else what its file says."""

from collections.abc import Callable

from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId
from lograft.metadata.image.records import ConfigResource, ResourceKind
from lograft.metadata.image.state_machine import MachineListener
from lograft.runtime.observability.log_levels import ROOT, levels_text, parse_levels
from lograft.runtime.observability.logging import get_logger

log = get_logger(__name__)

KEY = "log.level"


class LogLevelSetting(MachineListener):
    """`in_file`: the level that the process began with."""

    def __init__(
        self,
        broker_id: BrokerId,
        in_file: str,
        image: Callable[[], ClusterImage],
        set_level: Callable[[str], None],
    ) -> None:
        self._resource = ConfigResource(ResourceKind.BROKER, str(broker_id))
        self._in_file = self._in_force = in_file
        self._image = image
        self._set_level = set_level

    def advanced(self, index: int) -> None:
        wanted = self._wanted()
        if wanted == self._in_force:
            return
        self._in_force = wanted
        self._set_level(wanted)
        log.info("log_level_changed", levels=wanted)  # `level` is the event's own

    def _wanted(self) -> str:
        """What is not set is as in the file."""
        text = self._image().config_of(self._resource).get(KEY)
        levels = parse_levels(text) if text is not None else None
        if levels is None:  # not set, or by a later version
            return self._in_file
        if ROOT in levels:
            return levels_text(levels)
        return levels_text({**(parse_levels(self._in_file) or {}), **levels})
