"""`python -m lograft`, and what the `lograft` command runs: the composition root."""

from lograft.clients.cli import LazyCommand, run

# A room of its own knows what this one runs; the command line alone need not.
SERVER_COMMANDS = {
    "server": LazyCommand("lograft.broker.server_command:server", "Run one node of a cluster."),
}


def main() -> None:
    run(SERVER_COMMANDS)


if __name__ == "__main__":
    main()
