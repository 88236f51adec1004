"""What a node's file says of the cluster's configuration counts once; afterwards the difference is told."""

import logging
from collections.abc import Mapping

import pytest
from support.metadata_images import image_with, with_records

from lograft.broker.node.cluster_settings_check import ClusterSettingsCheck
from lograft.metadata.config.effective_settings import CLUSTER
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.records import ConfigChanged, FeatureLevelChanged, Record

BEGUN = FeatureLevelChanged(1)


def warned(caplog: pytest.LogCaptureFixture, wanted: Mapping[str, str], *images: ClusterImage) -> list[str]:
    """What is said as the image becomes each of `images`."""
    images_left = list(images)
    with caplog.at_level(logging.WARNING, "lograft"):
        check = ClusterSettingsCheck(wanted, lambda: images_left[0])
        while images_left:
            check.advanced(1)
            images_left.pop(0)
    return [str(record.msg) for record in caplog.records]


def image(*records: Record) -> ClusterImage:
    return with_records(image_with(), *records)


def test_settings_in_force_are_not_worth_a_word(caplog: pytest.LogCaptureFixture) -> None:
    assert warned(caplog, {"a": "1"}, image(BEGUN, ConfigChanged(CLUSTER, "a", "1"))) == []


def test_settings_that_are_others_or_not_there_are_told_with_a_remedy(caplog: pytest.LogCaptureFixture) -> None:
    told = warned(caplog, {"a": "1", "b": "2"}, image(BEGUN, ConfigChanged(CLUSTER, "a", "9")))
    assert [line.split()[0] for line in told] == ["setting_not_in_force"] * 2
    assert "key='a' in_file='1' in_cluster='9'" in told[0]
    assert "`lograft config set cluster b=2`" in told[1]


def test_it_is_judged_once_and_not_before_the_cluster_has_begun(caplog: pytest.LogCaptureFixture) -> None:
    begun = image(BEGUN, ConfigChanged(CLUSTER, "a", "1"))
    changed = image(BEGUN, ConfigChanged(CLUSTER, "a", "2"))
    assert warned(caplog, {"a": "1"}, image(), begun, changed) == []
