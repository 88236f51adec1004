"""The file of contexts: where it is, and how it is read and replaced."""

import os
import tempfile
from pathlib import Path

from lograft.cli.common.command_error import CommandError
from lograft.cli.common.contexts import BadContexts, Contexts, read_contexts, write_contexts

VARIABLE = "LOGRAFT_CONFIG"


def contexts_path() -> Path:
    """`LOGRAFT_CONFIG`, or `lograft/config.yaml` where the user's settings are."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(home) / "lograft" / "config.yaml"


def load_contexts() -> Contexts:
    """None, if there is no file. `CommandError` if it cannot be read."""
    path = contexts_path()
    try:
        return read_contexts(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise _unusable(path, "read", error.strerror) from None
    except (BadContexts, UnicodeDecodeError) as error:
        raise CommandError(
            f"the file of contexts, {path}, cannot be read: {error}",
            "mend it, or move it away and make it anew with `lograft context set NAME --bootstrap HOST:PORT`; commands "
            "with --bootstrap do without it",
        ) from None


def save_contexts(contexts: Contexts) -> None:
    """All of it or nothing, and for its owner only: another process sees the old file, or the new one."""
    path = contexts_path().resolve()  # a link stays one
    # To replace /dev/null, which some people name to have no contexts, would be bad for everybody on the machine.
    if path.exists() and not path.is_file():
        raise _unusable(path, "replaced", "it is no ordinary file")
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
        f"the file of contexts, {path}, cannot be {how}: {why}",
        f"see that it can be, or have {VARIABLE} name another; commands with --bootstrap do without it",
    )


def find_bootstrap(contexts: Contexts, name: str) -> str:
    """Where that context's cluster is."""
    if name not in contexts.bootstraps:
        known = ", ".join(sorted(contexts.bootstraps)) or "none so far"
        raise CommandError(
            f"there is no context {name!r} in {contexts_path()}",
            f"there are: {known}; `lograft context set {name} --bootstrap HOST:PORT` makes it",
        )
    return contexts.bootstraps[name]
