"""`lograft completion bash|zsh|fish`: print a shell completion script."""

import click

from lograft.cli.main import PROGRAM, cli

_SHELLS = ("bash", "zsh", "fish")
_VARIABLE = f"_{PROGRAM.upper()}_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Print a completion script for bash, zsh, or fish.

    The script completes commands, flags, and the current names of topics, partitions, groups, brokers, and contexts. If
    the cluster is unreachable, it completes no names and prints no errors.

    \b
    Examples:
      # Load completion into the current bash; add this line to ~/.bashrc for every shell
      source <(lograft completion bash)
      # Install completion for zsh or fish
      lograft completion zsh > "${fpath[1]}/_lograft"
      lograft completion fish > ~/.config/fish/completions/lograft.fish
    """
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None
    script = made(cli, {}, PROGRAM, _VARIABLE).source()
    if shell == "fish":
        # click splits at every comma, which would truncate fish's descriptions at the first comma.
        script = script.replace('(string split "," $completion)', '(string split --max 1 "," $completion)')
    click.echo(script)
