"""`python -m lograft` and the `lograft` command: the composition root."""

from lograft.cli.common.lazy_group import LazyCommand
from lograft.cli.main import run

# Commands of rooms that the command line may not import.
MORE_COMMANDS = {
    "chaos": LazyCommand(
        "lograft.chaos.live.commands:chaos", "Inject faults into a cluster and verify that no data is lost."
    ),
    "mark-restored": LazyCommand(
        "lograft.broker.node.mark_restored_command:mark_restored",
        "Mark data directories as restored from a backup.",
    ),
    "server": LazyCommand("lograft.broker.node.server_command:server", "Run a node."),
}


def main() -> None:
    run(MORE_COMMANDS)


if __name__ == "__main__":
    main()
