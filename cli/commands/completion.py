"""`lograft completion bash|zsh|fish`: what a shell has to run for the Tab key to know lograft."""

import click

from lograft.cli.main import PROGRAM, cli

_SHELLS = ("bash", "zsh", "fish")
_VARIABLE = f"_{PROGRAM.upper()}_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Write what a shell has to run for the Tab key to complete commands, flags, and the names of topics, partitions,
    groups, brokers and contexts as they are at the moment. Without a cluster there are no names, and no errors.

    \b
    source <(lograft completion bash)                    now; in ~/.bashrc, always
    lograft completion zsh > "${fpath[1]}/_lograft"
    lograft completion fish > ~/.config/fish/completions/lograft.fish
    """
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None
    script = made(cli, {}, PROGRAM, _VARIABLE).source()
    if shell == "fish":
        # click splits at every comma, and what fish tells of a command would end at its first one.
        script = script.replace('(string split "," $completion)', '(string split --max 1 "," $completion)')
    click.echo(script)
