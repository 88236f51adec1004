"""What a command has changed, told as `-o` says."""

import json
from dataclasses import replace
from typing import cast

import pytest
from support.deciding_admin import DecidingAdmin
from support.metadata_images import brokers, image_with, partition
from support.raft_nodes import virtual

from lograft.cli.common.cluster_options import Settings
from lograft.cli.common.command_error import CommandError
from lograft.cli.common.nouns import Noun
from lograft.cli.output.resource_output import resource
from lograft.cli.resources.change_report import ChangeReport
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.errors import InvalidArgument, NotEnoughBrokers, UnknownTopic

TABLE = Settings("b:1", 30_000)
NAMES, JSON = replace(TABLE, output="name"), replace(TABLE, output="json")


def admin() -> Admin:
    image = image_with(*brokers(3), topics={"orders": [partition(1), partition(2)], "bills": [partition(1)]})
    return cast(Admin, DecidingAdmin(image))


@virtual
async def test_people_get_a_line_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = ChangeReport(TABLE)
    outcomes.note("it begins")
    outcomes.tell(Noun.TOPIC, "orders", "created")
    outcomes.tell(Noun.QUORUM, "", "led by 1")
    outcomes.tell(Noun.BROKER, "1")
    await outcomes.finish(admin())
    assert capsys.readouterr().out == "it begins\ntopic/orders created\nquorum led by 1\n"


@virtual
async def test_a_name_is_written_once(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = ChangeReport(NAMES)
    outcomes.note("it begins")
    outcomes.tell(Noun.TOPIC, "orders", "begun")
    outcomes.tell(Noun.TOPIC, "orders", "done")
    await outcomes.finish(admin())
    assert capsys.readouterr().out == "topic/orders\n"


@virtual
async def test_one_is_itself_and_several_are_a_list_in_the_order_of_what_was_done(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one, several, always = ChangeReport(JSON), ChangeReport(JSON), ChangeReport(JSON, is_list=True)
    for outcomes, names in ((one, ["orders"]), (several, ["orders", "bills"]), (always, ["orders"])):
        for name in names:
            outcomes.tell(Noun.TOPIC, name, "created")
    await one.finish(admin())
    assert json.loads(capsys.readouterr().out)["spec"]["partitions"] == 2
    await several.finish(admin())
    assert [each["metadata"]["name"] for each in json.loads(capsys.readouterr().out)["items"]] == ["orders", "bills"]
    await always.finish(admin())
    assert len(json.loads(capsys.readouterr().out)["items"]) == 1


@virtual
async def test_what_failed_is_told_after_what_was_done(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = ChangeReport(JSON)
    outcomes.tell(Noun.TOPIC, "orders", "created")
    with pytest.raises(InvalidArgument, match="the first"):
        await outcomes.finish(admin(), [InvalidArgument("the first"), NotEnoughBrokers("the second")])
    told = capsys.readouterr()
    assert (json.loads(told.out)["metadata"]["name"], told.err) == ("orders", "Error: the second\n")
    with pytest.raises(InvalidArgument, match="the same"):
        await ChangeReport(JSON).finish(admin(), [InvalidArgument(each) for each in ("the same", "other", "the same")])
    assert capsys.readouterr().err == "Error: other\n", "once is enough"
    with pytest.raises(InvalidArgument):
        await ChangeReport(JSON).finish(admin(), [InvalidArgument("all of it")])
    assert capsys.readouterr().out == ""
    await ChangeReport(JSON).finish(admin())
    assert json.loads(capsys.readouterr().out)["items"] == []


@virtual
async def test_that_it_was_done_is_said_though_it_cannot_be_shown() -> None:
    class Silent(DecidingAdmin):
        async def describe_cluster(self, *_: object, **__: object) -> None:  # type: ignore[override]
            raise UnknownTopic("there is no topic 'orders'")

    outcomes = ChangeReport(JSON)
    outcomes.tell(Noun.TOPIC, "orders", "created")
    with pytest.raises(
        CommandError, match="the change was made, but its result is not available: there is no topic 'orders'"
    ):
        await outcomes.finish(cast(Admin, Silent(image_with(*brokers(1)))))


def test_what_is_only_planned_is_not_looked_for(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = ChangeReport(replace(TABLE, output="jsonpath={.kind} {.metadata.name}"))
    outcomes.tell(Noun.TOPIC, "nowhere", "would be created", resource("Topic", {"name": "nowhere"}))
    outcomes.finish_planned()
    assert capsys.readouterr().out == "Topic nowhere"
