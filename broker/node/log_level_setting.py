"""A node's log level: the broker setting `log.level` if it is set, otherwise the level in the node's file."""

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
    """`in_file`: the level from the node's configuration, in effect since the process started."""

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
        log.info("log_level_changed", levels=wanted)  # the field `level` holds the event's own level

    def _wanted(self) -> str:
        """Return the levels to apply; loggers without a setting keep their level from the file."""
        text = self._image().config_of(self._resource).get(KEY)
        levels = parse_levels(text) if text is not None else None
        if levels is None:  # not set, or set by a later version in a format unknown here
            return self._in_file
        if ROOT in levels:
            return levels_text(levels)
        return levels_text({**(parse_levels(self._in_file) or {}), **levels})
