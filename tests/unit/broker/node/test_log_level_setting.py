"""How much a node logs can be changed while it runs."""

from support.metadata_images import image_with, with_records

from lograft.broker.node.log_level_setting import LogLevelSetting
from lograft.metadata.image.partition import BrokerId
from lograft.metadata.image.records import ConfigChanged, ConfigResource, ResourceKind


def change(broker: str, value: str | None) -> ConfigChanged:
    return ConfigChanged(ConfigResource(ResourceKind.BROKER, broker), "log.level", value)


def test_what_is_set_for_the_broker_is_in_force_at_once_and_the_file_again_when_it_is_unset() -> None:
    images, levels = [image_with()], list[str]()
    level = LogLevelSetting(BrokerId(1), "warning", lambda: images[-1], levels.append)
    steps = [
        (change("2", "error"), []),
        (change("1", "debug"), ["debug"]),
        (change("1", "debug"), []),
        (change("1", "warning"), ["warning"]),
        (change("1", "info"), ["info"]),
        (change("1", "lograft.raft=debug"), ["warning,lograft.raft=debug"]),
        (change("1", "error,lograft.raft.driver.raft_node=info"), ["error,lograft.raft.driver.raft_node=info"]),
        (change("1", "from a later version"), ["warning"]),
        (change("1", None), []),
    ]
    for index, (record, expected) in enumerate(steps, start=1):
        images.append(with_records(images[-1], record))
        levels.clear()
        level.advanced(index)
        assert levels == expected
