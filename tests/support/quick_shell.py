"""A shell that need not start a process for each command: `lograft` is called where it is, alone or at the end of a
pipe. Whatever else is typed, a real shell does. For chapters of many commands that do little."""

import os
import re
import shlex
import subprocess
from contextlib import chdir

from click.testing import CliRunner
from support.transcript_shell import DEADLINE_SECONDS, Shell
from support.transcripts import Step

from lograft.__main__ import MORE_COMMANDS
from lograft.cli.common.lazy_group import LazyGroup
from lograft.cli.main import PROGRAM, cli

# What a shell would have to be asked about is left to one.
_SIMPLE = re.compile(r"(?:(?P<before>.*) \| )?lograft (?P<words>(?:'[^']*'|[^|&;<>$`'\"*\\])*)", flags=re.DOTALL)


class QuickShell(Shell):
    def run(self, step: Step) -> list[str]:
        found = _SIMPLE.fullmatch(self._with_own_ports(step.command))
        if found is None:
            return super().run(step)
        typed = self._output_of(found["before"]) if found["before"] is not None else b""
        assert isinstance(cli, LazyGroup)
        cli.add_lazy(MORE_COMMANDS)
        with chdir(self._home):
            words = shlex.split(found["words"], comments=True)
            done = CliRunner(env=self._changes()).invoke(cli, words, input=typed, prog_name=PROGRAM)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return self._answer(done.output, done.exit_code)

    def _output_of(self, command: str) -> bytes:
        done = subprocess.run(
            ["bash", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=True,
            timeout=DEADLINE_SECONDS,
            cwd=self._home,
            env=self._variables(),
        )
        return done.stdout

    def _changes(self) -> dict[str, str | None]:
        """Of this process's variables."""
        own = self._variables()
        return {name: own.get(name) for name in (*os.environ, *own)}
