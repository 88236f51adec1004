"""Compares the cluster's configuration with this node's file, which takes effect only at the cluster's first start."""

from collections.abc import Callable, Mapping

from lograft.metadata.config.effective_settings import CLUSTER
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.state_machine import MachineListener
from lograft.runtime.observability.logging import get_logger

log = get_logger(__name__)


class ClusterSettingsCheck(MachineListener):
    """Logs one warning for each setting in the file that is not in effect."""

    def __init__(self, wanted: Mapping[str, str], image: Callable[[], ClusterImage]) -> None:
        self._wanted = wanted
        self._image = image
        self._is_done = False

    def advanced(self, index: int) -> None:
        image = self._image()
        if self._is_done or image.feature_level == 0:
            return
        self._is_done = True
        in_force = image.config_of(CLUSTER)
        for key, value in self._wanted.items():
            if in_force.get(key) != value:
                log.warning(
                    "setting_not_in_force",
                    key=key,
                    in_file=value,
                    in_cluster=in_force.get(key),
                    remedy=f"`lograft config set cluster {key}={value}`, or remove it from the file",
                )
