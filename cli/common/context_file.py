"""Locate, read and atomically replace the contexts file."""

import os
import tempfile
from pathlib import Path

from lograft.cli.common.command_error import CommandError
from lograft.cli.common.contexts import BadContexts, Contexts, read_contexts, write_contexts

VARIABLE = "LOGRAFT_CONFIG"


def contexts_path() -> Path:
    """Return `LOGRAFT_CONFIG`, or `lograft/config.yaml` in the user's configuration directory."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(home) / "lograft" / "config.yaml"


def load_contexts() -> Contexts:
    """Return no contexts if the file does not exist. Raise `CommandError` if it cannot be read."""
    path = contexts_path()
    try:
        return read_contexts(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise _unusable(path, "read", error.strerror) from None
    except (BadContexts, UnicodeDecodeError) as error:
        raise CommandError(
            f"the contexts file {path} cannot be read: {error}",
            "correct it, or move it away and create a new one with `lograft context set NAME --bootstrap HOST:PORT`; "
            "commands with --bootstrap do not read it",
        ) from None


def save_contexts(contexts: Contexts) -> None:
    """Replace the file atomically, readable by its owner only."""
    path = contexts_path().resolve()  # a link stays one
    # Never replace /dev/null, which some users name to have no contexts.
    if path.exists() and not path.is_file():
        raise _unusable(path, "replaced", "it is not a regular file")
    try:
        _replace(path, write_contexts(contexts))
    except OSError as error:
        raise _unusable(path, "written", error.strerror) from None


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(prefix=".config-", suffix=".yaml", dir=path.parent)  # of mode 0600
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _unusable(path: Path, how: str, why: str | None) -> CommandError:
    return CommandError(
        f"the contexts file {path} cannot be {how}: {why}",
        f"fix its permissions, or set {VARIABLE} to another file; commands with --bootstrap do not read it",
    )


def find_bootstrap(contexts: Contexts, name: str) -> str:
    """Return the context's bootstrap addresses. Raise `CommandError` if it does not exist."""
    if name not in contexts.bootstraps:
        known = ", ".join(sorted(contexts.bootstraps)) or "none"
        raise CommandError(
            f"context {name!r} does not exist in {contexts_path()}",
            f"known contexts: {known}; create it with `lograft context set {name} --bootstrap HOST:PORT`",
        )
    return contexts.bootstraps[name]
