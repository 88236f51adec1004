"""The command line: `lograft COMMAND ...`. A command's module is imported when the command is used, not before.

Exit codes: 0 done, 1 refused or failed, 2 wrong usage. Data goes to stdout, all else to stderr.
"""

import errno
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

import click

from lograft.cli.common.command_error import unforeseen
from lograft.cli.common.lazy_group import LazyCommand, LazyGroup
from lograft.runtime.process.standard_streams import finish_output, open_missing_streams

PROGRAM = "lograft"

COMMANDS: Mapping[str, LazyCommand] = {
    "api-resources": LazyCommand(
        "lograft.cli.commands.api_resources:api_resources", "List the nouns, and what can be done with each."
    ),
    "apply": LazyCommand("lograft.cli.declarative.apply:apply", "Have the cluster be as resource files say."),
    "bench": LazyCommand("lograft.cli.commands.bench:bench", "Measure a cluster: producing, consuming, latency."),
    "completion": LazyCommand(
        "lograft.cli.commands.completion:completion", "Have the Tab key of a shell know commands and names."
    ),
    "config": LazyCommand("lograft.cli.commands.config:config", "Set and unset keys of a configuration."),
    "consume": LazyCommand("lograft.cli.records.consume:consume", "Write the records of a topic to standard output."),
    "context": LazyCommand("lograft.cli.commands.context:context", "Give clusters names, and choose one of them."),
    "create": LazyCommand("lograft.cli.commands.create:create", "Create topics."),
    "delete": LazyCommand("lograft.cli.commands.delete:delete", "Delete topics or groups, or forget brokers."),
    "describe": LazyCommand(
        "lograft.cli.commands.describe:describe", "Tell all about a topic, a broker, the quorum and more."
    ),
    "dev": LazyCommand("lograft.cli.commands.dev:dev", "Run a cluster of real processes on this machine."),
    "diff": LazyCommand("lograft.cli.declarative.diff:diff", "Show what `lograft apply` would change."),
    "drain": LazyCommand("lograft.cli.operations.drain:drain", "Move everything off a broker."),
    "dump-log": LazyCommand(
        "lograft.cli.dump.command:dump_log", "Show what a data file holds, and whether it is sound."
    ),
    "edit": LazyCommand("lograft.cli.declarative.edit:edit", "Change topics in an editor."),
    "elect": LazyCommand("lograft.cli.commands.elect:elect", "Have other replicas lead."),
    "explain": LazyCommand("lograft.cli.commands.explain:explain", "Tell what resources and their settings mean."),
    "export": LazyCommand("lograft.cli.declarative.export:export", "Write resource files of what there is."),
    "get": LazyCommand("lograft.cli.commands.get:get", "Show topics, partitions, brokers and more, a line each."),
    "health": LazyCommand("lograft.cli.commands.health:health", "Say whether all is well with the cluster."),
    "offsets": LazyCommand(
        "lograft.cli.commands.offsets:offsets", "Show where partitions start and end, or where a time is."
    ),
    "import": LazyCommand(
        "lograft.cli.declarative.import_groups:import_command", "Have groups go on where a file says."
    ),
    "produce": LazyCommand("lograft.cli.records.produce:produce", "Store lines of standard input, or of files."),
    "quorum": LazyCommand("lograft.cli.commands.quorum:quorum", "Change who votes on the metadata, and who leads."),
    "reassign": LazyCommand("lograft.cli.operations.reassign:reassign", "Move partitions to other brokers."),
    "reset": LazyCommand("lograft.cli.operations.reset:reset", "Have a group go on at other offsets."),
    "scale": LazyCommand(
        "lograft.cli.operations.scale:scale", "Give topics more partitions, or more or fewer replicas."
    ),
    "top": LazyCommand("lograft.cli.top.command:top", "Show what the cluster is doing, live."),
    "verify": LazyCommand("lograft.cli.commands.verify:verify", "Say whether all replicas have the same records."),
    "wait": LazyCommand("lograft.cli.commands.wait:wait", "Return when something has come to be so."),
}

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "A cluster on this machine": ("dev", "server", "chaos"),
    "Look at a cluster": (
        "get", "describe", "health", "top", "wait", "offsets", "verify", "explain", "api-resources",
    ),
    "Records": ("produce", "consume", "bench", "dump-log"),
    "Change topics, groups and settings": (
        "create", "delete", "edit", "scale", "config", "apply", "diff", "export", "reset", "import",
    ),
    "Operate a cluster": ("elect", "reassign", "drain", "quorum", "mark-restored"),
    "Settings of this command line": ("context", "completion"),
}  # fmt: skip
"""In which help lists them."""


def _complete_contexts(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
    from lograft.cli.common.completion_values import complete_names
    from lograft.cli.common.nouns import Noun

    return complete_names(Noun.CONTEXT)(ctx, parameter, incomplete)


@click.group(
    cls=LazyGroup,
    lazy_commands=COMMANDS,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name=PROGRAM, prog_name=PROGRAM, message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show a traceback when something goes wrong.")
@click.option("--bootstrap", envvar="LOGRAFT_BOOTSTRAP", metavar="HOST:PORT,...", help="Some brokers of the cluster.")
@click.option(
    "--context",
    envvar="LOGRAFT_CONTEXT",
    metavar="NAME",
    shell_complete=_complete_contexts,
    help="Which cluster, by its name in `lograft context list`.",
)
@click.option("--timeout", metavar="DURATION", help="How long to try: 500ms, 5s, 10m, 1h.")
@click.option("-o", "--output", metavar="FORMAT", help="How to show it: table, wide, json, yaml, name, jsonpath=...")
@click.option("-w", "--watch", is_flag=True, help="Show it again whenever it has changed.")
@click.option("--no-headers", is_flag=True, help="Leave the titles of tables out.")
def cli(**_common: object) -> None:
    """lograft: a replicated log service, and its tools.

    \b
    lograft dev up --detach                a cluster of three nodes on this machine
    lograft create topic orders --partitions 3
    seq 1000 | lograft produce orders
    lograft consume orders --exit          what is there; without --exit, what comes
    lograft dev kill 2                     a broker dies, and is soon missed:
    lograft get partitions --under-replicated
    lograft dev restart 2                  and comes back
    lograft wait topic/orders --for InSync
    lograft dev down

    `lograft COMMAND --help` tells what a command can do, with examples.
    """


def run(more_commands: Mapping[str, LazyCommand]) -> NoReturn:
    """Run the command that the process was started with, and exit. `more_commands`: beside those that are here."""
    assert isinstance(cli, LazyGroup)
    cli.add_lazy(more_commands)
    open_missing_streams()
    code: Any = 0
    trouble: OSError | None = None
    try:
        cli.main(prog_name=PROGRAM)
    except SystemExit as ended:
        code = ended.code
    except OSError as error:  # of help, which is written before there is a command
        if "--debug" in sys.argv:
            raise
        trouble = error
    unwritten = finish_output()
    if not code and (trouble := trouble or unwritten) is not None:
        code = 1
        if trouble.errno != errno.EPIPE:
            unforeseen(trouble).show()
    sys.exit(code)
