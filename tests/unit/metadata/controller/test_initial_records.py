"""A cluster's metadata begins once, whoever comes to be the first active controller."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from support.metadata_images import image_with, with_records
from support.raft_nodes import make_runtime, virtual
from support.scripted_quorum import Office, in_office, settle

from lograft.metadata.config.effective_settings import CLUSTER
from lograft.metadata.config.topic_config import MIN_ISR
from lograft.metadata.controller.initial_records import FEATURE_LEVEL, MIN_FEATURE_LEVEL, InitialRecords, begin_cluster
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.records import FeatureLevelChanged
from lograft.raft.errors import Overloaded


def test_a_new_cluster_gets_the_greatest_level_that_this_version_knows() -> None:
    decision = begin_cluster(ClusterImage(), {})
    assert decision.records == (FeatureLevelChanged(FEATURE_LEVEL),)
    assert decision.answer == FEATURE_LEVEL
    assert MIN_FEATURE_LEVEL <= FEATURE_LEVEL


@pytest.mark.parametrize("level", [1, 7])
def test_a_cluster_that_has_begun_keeps_its_level(level: int) -> None:
    decision = begin_cluster(with_records(image_with(), FeatureLevelChanged(level)), {MIN_ISR: "2"})
    assert (decision.records, decision.answer) == ((), level)


@asynccontextmanager
async def beginning() -> AsyncIterator[Office]:
    """A controller out of office, with `InitialRecords` at work."""
    async with in_office() as office:
        office.node.lose()
        first = InitialRecords(make_runtime(1).clock, office.controller, {MIN_ISR: "2"})
        office.node.observe(first)
        running = asyncio.ensure_future(first.run())
        await settle()
        yield office
        assert not running.done()
        running.cancel()


@virtual
async def test_who_takes_office_first_begins_the_cluster() -> None:
    async with beginning() as office:
        assert not office.node.queued
        office.node.lead()
        await settle()
        office.node.commit()
        assert office.machine.image.feature_level == FEATURE_LEVEL
        assert office.machine.image.config_of(CLUSTER) == {MIN_ISR: "2"}


@virtual
async def test_who_takes_office_later_writes_nothing() -> None:
    async with beginning() as office:
        office.node.commit_of_others(FeatureLevelChanged(1))
        office.node.lead()
        await asyncio.sleep(5)
        assert not office.node.queued
        assert not office.node.reads


@virtual
async def test_what_the_quorum_refuses_is_tried_again_while_in_office() -> None:
    async with beginning() as office:
        office.node.refuses_with = Overloaded("too much")
        office.node.lead()
        await asyncio.sleep(5)
        assert office.machine.image.feature_level == 0
        office.node.refuses_with = None
        await asyncio.sleep(0.2)
        office.node.commit()
        assert office.machine.image.feature_level == FEATURE_LEVEL


@virtual
async def test_who_loses_the_office_leaves_it_to_the_next_and_begins_again_when_elected_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "lograft.metadata")
    async with beginning() as office:
        office.node.lead()
        await settle()
        office.node.take_in()
        office.node.lose(to=2)
        caplog.clear()
        await asyncio.sleep(5)
        assert not office.node.queued
        assert len([record for record in caplog.records if "cluster_not_begun" in record.getMessage()]) == 1
        office.node.lead()
        await asyncio.sleep(0.2)
        office.node.commit()
        assert office.machine.image.feature_level == FEATURE_LEVEL


@virtual
async def test_an_office_that_is_lost_and_taken_while_it_waits_to_try_again_is_not_missed() -> None:
    async with beginning() as office:
        office.node.lead()
        await settle()
        office.node.lose(to=2)
        await settle()
        office.node.lead()
        await asyncio.sleep(0.2)
        office.node.commit()
        assert office.machine.image.feature_level == FEATURE_LEVEL
