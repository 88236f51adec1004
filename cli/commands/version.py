"""`lograft version`: print the version of this program."""

import sys

import click

from lograft.cli.common.cluster_options import Settings, command_flags
from lograft.cli.common.common_flags import DOCUMENTS
from lograft.cli.output.resource_output import resource, write_document


@click.command("version")
@command_flags("table", *DOCUMENTS, asks_cluster=False)
def version(settings: Settings) -> None:
    """Print the version of this program. No cluster is contacted.

    \b
    Examples:
      # Print the version
      lograft version
      # Print the versions of lograft and Python as JSON
      lograft version -o json
    """
    from importlib.metadata import version as installed_version

    own = installed_version("lograft")
    if settings.is_document:
        status = {"version": own, "python": ".".join(map(str, sys.version_info[:3]))}
        write_document(sys.stdout, resource("Version", {"name": "lograft"}, status=status), settings.output)
    else:
        click.echo(f"lograft {own}")
