"""`lograft quorum add|remove|replace|transfer ID`: change the voters and the leader of the metadata quorum."""

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
    """Change the voters or the leader of the metadata quorum, one controller at a time.

    These commands are idempotent: repeating one resumes a change that is under way and has no effect on a completed
    one. `lograft describe quorum` shows the current voters.
    """


@quorum.command("add")
@_id
@changing_command
def add_command(settings: Settings, node: str) -> None:
    """Add a controller as a voter.

    The controller must be running and be listed in `controllers` of all nodes. It catches up before it votes.
    """
    run_async(_change(settings, _controller(node), "added", lambda admin, node_id: admin.add_voter(node_id)))


@quorum.command("remove")
@_id
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@changing_command
def remove_command(settings: Settings, node: str, yes: bool) -> None:
    """Remove a voter, before its node is decommissioned. If it leads the quorum, another voter takes over.

    The command asks for confirmation. Scripts must pass --yes.
    """
    confirm(f"Remove voter {_controller(node)} from the quorum", settings, is_given=yes)
    run_async(_change(settings, _controller(node), "removed", lambda admin, node_id: admin.remove_voter(node_id)))


@quorum.command("replace")
@_id
@changing_command
def replace_command(settings: Settings, node: str) -> None:
    """Restore the vote of a controller that lost its disk. It must be running with an empty disk.

    The controller first catches up as a learner and then replaces its former self. If it still has the disk that it
    votes with, the command changes nothing.

    Replace one node at a time. Until this command succeeds, the node does not vote, and the quorum tolerates one
    failure less, so keep the stores of all other voters. A quorum that loses the majority of its stores cannot be
    restored.
    """
    run_async(
        _change(
            settings, _controller(node), "replaced", lambda admin, node_id: admin.replace_voter(node_id),
            unchanged="unchanged: it still has the disk it votes with",
        )
    )  # fmt: skip


@quorum.command("transfer")
@_id
@changing_command
def transfer_command(settings: Settings, node: str) -> None:
    """Transfer leadership of the quorum to another voter, which becomes the active controller."""
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
    """Return the voters with their disks."""
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
