"""`lograft quorum add|remove|replace|transfer ID`: who votes on the metadata, and who leads the vote."""

from collections.abc import Awaitable, Callable, Iterable
from uuid import UUID

import click

from lograft.cli.common.cluster_options import Settings, changing_command, open_admin, run_async
from lograft.cli.common.nouns import Noun, parse_id
from lograft.cli.common.prompts import confirm
from lograft.cli.resources.change_report import ChangeReport
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.admin.model.types import QuorumMember

_id = click.argument("node", metavar="ID")


@click.group()
def quorum() -> None:
    """Change who votes on the metadata, one controller at a time. `lograft describe quorum` shows who does.

    Each of these can be repeated: what is done is not done twice, and what was begun goes on.
    """


@quorum.command("add")
@_id
@changing_command
def add_command(settings: Settings, node: str) -> None:
    """Have a controller vote. It must be running, and be listed in `controllers` by all nodes; first it catches up."""
    run_async(_change(settings, _controller(node), "added", lambda admin, node_id: admin.add_voter(node_id)))


@quorum.command("remove")
@_id
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@changing_command
def remove_command(settings: Settings, node: str, yes: bool) -> None:
    """Have a controller vote no more: before it is stopped for good. If it leads, another one takes over.

    Asks before, on a terminal; scripts have to say --yes.
    """
    confirm(f"Remove voter {_controller(node)} from the quorum", settings, is_given=yes)
    run_async(_change(settings, _controller(node), "removed", lambda admin, node_id: admin.remove_voter(node_id)))


@quorum.command("replace")
@_id
@changing_command
def replace_command(settings: Settings, node: str) -> None:
    """Have a controller that lost its disk vote again. It must be running, with an empty disk.

    It learns first, and then takes the place of its former self. If it has the disk that it votes with, nothing is
    lost, and nothing is changed.

    Replace one node at a time. Until this command has succeeded, the node does not vote, and the quorum tolerates one
    failure less: keep the stores of all others until then. A quorum that loses most of its stores cannot be restored.
    """
    run_async(
        _change(
            settings, _controller(node), "replaced", lambda admin, node_id: admin.replace_voter(node_id),
            unchanged="unchanged, it has the disk that it votes with",
        )
    )  # fmt: skip


@quorum.command("transfer")
@_id
@changing_command
def transfer_command(settings: Settings, node: str) -> None:
    """Have another voter lead: it is the active controller then."""
    run_async(_transfer(settings, _controller(node)))


def _controller(text: str) -> int:
    return parse_id(text, "controller")


async def _change(
    settings: Settings,
    node_id: int,
    done: str,
    change: Callable[[Admin, int], Awaitable[tuple[QuorumMember, ...]]],
    *,
    unchanged: str = "unchanged",
) -> None:
    async with open_admin(settings) as admin:
        before = (await admin.describe_quorum()).members
        after = await change(admin, node_id)
        voters = ", ".join(str(member.node_id) for member in after if member.is_voter)
        how = done if _votes(before) != _votes(after) else unchanged
        await _tell(admin, settings, f"voter/{node_id} {how}: the voters are {voters}")


def _votes(members: Iterable[QuorumMember]) -> list[tuple[int, UUID | None]]:
    """Who votes, and with which disk."""
    return [(member.node_id, member.directory_id) for member in members if member.is_voter]


async def _transfer(settings: Settings, node_id: int) -> None:
    async with open_admin(settings) as admin:
        leader = await admin.transfer_leadership(node_id)
        await _tell(admin, settings, f"quorum led by {leader}")


async def _tell(admin: Admin, settings: Settings, line: str) -> None:
    report = ChangeReport(settings)
    report.note(line)
    report.tell(Noun.QUORUM, "")
    await report.finish(admin)
