"""The command line: `lograft COMMAND ...`. A command's module is imported only when the command is used.

Exit codes: 0 success, 1 rejected or failed, 2 invalid usage. Data goes to stdout, messages to stderr.
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
        "lograft.cli.commands.api_resources:api_resources", "Print the supported resource types."
    ),
    "apply": LazyCommand("lograft.cli.declarative.apply:apply", "Apply resource files to a cluster."),
    "bench": LazyCommand("lograft.cli.commands.bench:bench", "Measure throughput or latency."),
    "completion": LazyCommand("lograft.cli.commands.completion:completion", "Print a shell completion script."),
    "config": LazyCommand("lograft.cli.commands.config:config", "Set or unset configuration keys."),
    "consume": LazyCommand("lograft.cli.records.consume:consume", "Print the records of topics."),
    "context": LazyCommand("lograft.cli.commands.context:context", "Manage named clusters."),
    "create": LazyCommand("lograft.cli.commands.create:create", "Create topics."),
    "delete": LazyCommand("lograft.cli.commands.delete:delete", "Delete topics, groups, or stopped brokers."),
    "describe": LazyCommand("lograft.cli.commands.describe:describe", "Show details of resources."),
    "dev": LazyCommand("lograft.cli.commands.dev:dev", "Run a local cluster of real processes."),
    "diff": LazyCommand("lograft.cli.declarative.diff:diff", "Show what `lograft apply` would change."),
    "drain": LazyCommand("lograft.cli.operations.drain:drain", "Move all replicas off brokers."),
    "dump-log": LazyCommand("lograft.cli.dump.command:dump_log", "Print and verify a data file."),
    "edit": LazyCommand("lograft.cli.declarative.edit:edit", "Edit topics in an editor."),
    "elect": LazyCommand("lograft.cli.commands.elect:elect", "Elect partition leaders."),
    "explain": LazyCommand("lograft.cli.commands.explain:explain", "Show documentation for resources and fields."),
    "export": LazyCommand("lograft.cli.declarative.export:export", "Export topics or group offsets as files."),
    "get": LazyCommand("lograft.cli.commands.get:get", "List resources."),
    "health": LazyCommand("lograft.cli.commands.health:health", "Check the health of a cluster."),
    "offsets": LazyCommand("lograft.cli.commands.offsets:offsets", "Show offsets of partitions, or offsets by time."),
    "import": LazyCommand("lograft.cli.declarative.import_groups:import_command", "Set group offsets from a file."),
    "produce": LazyCommand(
        "lograft.cli.records.produce:produce", "Write records to a topic from standard input or files."
    ),
    "quorum": LazyCommand(
        "lograft.cli.commands.quorum:quorum", "Change the voters or the leader of the metadata quorum."
    ),
    "reassign": LazyCommand("lograft.cli.operations.reassign:reassign", "Move partitions between brokers."),
    "reset": LazyCommand("lograft.cli.operations.reset:reset", "Reset the committed offsets of a group."),
    "scale": LazyCommand(
        "lograft.cli.operations.scale:scale", "Change the number of partitions or replicas of topics."
    ),
    "top": LazyCommand("lograft.cli.top.command:top", "Show live cluster activity."),
    "verify": LazyCommand("lograft.cli.commands.verify:verify", "Verify that all replicas are identical."),
    "version": LazyCommand("lograft.cli.commands.version:version", "Print the version of this program."),
    "wait": LazyCommand("lograft.cli.commands.wait:wait", "Wait for a condition on one or more resources."),
}

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Run clusters and nodes": ("dev", "server", "chaos"),
    "Inspect a cluster": (
        "get", "describe", "health", "top", "wait", "offsets", "verify", "explain", "api-resources",
    ),
    "Records": ("produce", "consume", "bench", "dump-log"),
    "Change topics, groups and configuration": (
        "create", "delete", "edit", "scale", "config", "apply", "diff", "export", "reset", "import",
    ),
    "Operate a cluster": ("elect", "reassign", "drain", "quorum", "mark-restored"),
    "Configure this command line": ("context", "completion", "version"),
}  # fmt: skip
"""The sections of help."""


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
@click.option("--debug", is_flag=True, help="Print tracebacks of errors.")
@click.option(
    "--bootstrap", envvar="LOGRAFT_BOOTSTRAP", metavar="HOST:PORT,...", help="Addresses of one or more brokers."
)
@click.option(
    "--context",
    envvar="LOGRAFT_CONTEXT",
    metavar="NAME",
    shell_complete=_complete_contexts,
    help="Name of the context to use.",
)
@click.option("--timeout", metavar="DURATION", help="Maximum time to wait, such as 500ms, 5s, 10m.")
@click.option("-o", "--output", metavar="FORMAT", help="Output format: table, wide, json, yaml, name, jsonpath=...")
@click.option("-w", "--watch", is_flag=True, help="After listing, watch for changes.")
@click.option("--no-headers", is_flag=True, help="Omit the headers of tables.")
def cli(**_common: object) -> None:
    """lograft runs and controls a replicated log service.

    \b
    Examples:
      # Start a local cluster of three nodes
      lograft dev up --detach
      # Create a topic, write records to it, and read them
      lograft create topic orders --partitions 3
      seq 1000 | lograft produce orders
      lograft consume orders --exit
      # Kill a broker and list the partitions that miss a replica
      lograft dev kill 2
      lograft get partitions --under-replicated
      # Restart it and wait until its replicas are in sync
      lograft dev restart 2
      lograft wait topic/orders --for InSync
      # Stop the cluster
      lograft dev down

    Use `lograft COMMAND --help` for more information about a command.
    """


def run(more_commands: Mapping[str, LazyCommand]) -> NoReturn:
    """Run the command of this process, and exit. `more_commands`: commands to add."""
    assert isinstance(cli, LazyGroup)
    cli.add_lazy(more_commands)
    open_missing_streams()
    code: Any = 0
    trouble: OSError | None = None
    try:
        cli.main(prog_name=PROGRAM)
    except SystemExit as ended:
        code = ended.code
    except OSError as error:  # raised by help, which is printed before a command runs
        if "--debug" in sys.argv:
            raise
        trouble = error
    unwritten = finish_output()
    if not code and (trouble := trouble or unwritten) is not None:
        code = 1
        if trouble.errno != errno.EPIPE:
            unforeseen(trouble).show()
    sys.exit(code)
