"""`python -m lograft`, and what the `lograft` command runs: the composition root."""

from lograft.cli.common.lazy_group import LazyCommand
from lograft.cli.main import run

# Of rooms that the command line does not know.
MORE_COMMANDS = {
    "chaos": LazyCommand("lograft.chaos.live.commands:chaos", "Torment a cluster, and prove that nothing is lost."),
    "mark-restored": LazyCommand(
        "lograft.broker.node.mark_restored_command:mark_restored",
        "Mark data directories that were put back from a copy.",
    ),
    "server": LazyCommand("lograft.broker.node.server_command:server", "Run one node of a cluster."),
}


def main() -> None:
    run(MORE_COMMANDS)


if __name__ == "__main__":
    main()
