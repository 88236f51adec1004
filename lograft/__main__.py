"""`python -m lograft`, and what the `lograft` command runs: the composition root."""

from lograft.clients.cli import run


def main() -> None:
    run()


if __name__ == "__main__":
    main()
