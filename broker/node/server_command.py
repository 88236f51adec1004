"""`lograft server`: one node of a cluster, as a process.

Exit codes: 0 after an orderly shutdown; 1 if refused, with the reason in one line on stderr; 3 after a broken invariant
or a failed disk, when a restart is safe; 128 plus the signal's number if a second signal ended it at once.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from lograft.broker.node.config import KEYS, TABLES, ConfigRefused, NodeConfig, SettingSources, parse_file, read_config
from lograft.broker.node.config import stray_variables as find_stray_variables

EXIT_REFUSED = 1
EXIT_PANIC = 3
EXIT_BY_SIGNAL = 128

# A file for each partition, up to a thousand older segments for each data directory, and connections.
ENOUGH_FILES = 20_000


class StartRefused(click.ClickException):
    exit_code = EXIT_REFUSED


def _options(command: Callable[..., None]) -> Callable[..., None]:
    """Add a flag for every key. Click shows the flag added last first, so add them in reverse."""
    for table in reversed(list(TABLES)):
        command = click.option(
            f"--{table}", f"table_{table}", multiple=True, metavar="KEY=VALUE",
            help=f"A key of [{table}]; repeatable.",
        )(command)  # fmt: skip
    for key in reversed(list(KEYS.values())):
        command = click.option(
            key.flag, key.field, metavar="VALUE", help=f"{key.description} Accepts {key.kind.accepts}."
        )(command)
    return command


@click.command()
@click.option(
    "--config", "config_path", metavar="FILE", help="A TOML file with the keys below, spelt with underscores."
)
@_options
def server(config_path: str | None, **flags: Any) -> None:
    """Run one node of a cluster, until SIGTERM or Ctrl+C: an orderly shutdown. A second signal ends it at once.

    Each key can be set in the file, by a variable LOGRAFT_<KEY>, or by a flag, which wins.
    """
    config = _with_secrets(_read(config_path, flags))
    raise SystemExit(_run(config))


def _read(config_path: str | None, flags: dict[str, Any]) -> NodeConfig:
    try:
        file = {} if config_path is None else parse_file(config_path, _text_of(config_path))
        return read_config(
            SettingSources(
                file=file,
                variables=os.environ,
                flags={name: flags[key.field] for name, key in KEYS.items() if flags[key.field] is not None},
                table_flags={table: flags[f"table_{table}"] for table in TABLES},
            )
        )
    except ConfigRefused as error:
        raise StartRefused(str(error)) from None


def _with_secrets(config: NodeConfig) -> NodeConfig:
    from lograft.runtime.proof.node_proof import MAX_SECRET_FILE_BYTES, SecretsRefused, read_secrets

    path = config.cluster_secret_file
    if path is None:
        return config
    try:
        return replace(config, cluster_secrets=read_secrets(_text_of(path, MAX_SECRET_FILE_BYTES)))
    except SecretsRefused as error:
        raise StartRefused(f"cluster_secret_file {path} cannot be used: {error}") from None


def _text_of(path: str, max_characters: int = -1) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(max_characters)
    except OSError as error:
        raise StartRefused(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise StartRefused(f"{path} is not UTF-8 text") from None


def _run(config: NodeConfig) -> int:
    # Import late: these imports are slow, and an invalid configuration must be reported at once.
    from lograft.runtime.disk.os_files import raise_descriptor_limit
    from lograft.runtime.observability.logging import bind_context, configure_logging, get_logger
    from lograft.runtime.process.allocator import keep_freed_memory

    configure_logging(config.log_level)
    bind_context(node_id=config.node_id)
    log = get_logger(__name__)
    for name, meant in find_stray_variables(os.environ):
        log.warning("variable_ignored", variable=name, remedy=f"lograft only reads {meant}")
    if not config.cluster_secrets:
        remedy = "set the same cluster_secret_file on all nodes"
        log.warning("no_cluster_secret", reason="any process on this machine can pose as a node", remedy=remedy)
    keep_freed_memory()
    limit = raise_descriptor_limit()
    if limit < ENOUGH_FILES:
        remedy = f"allow {ENOUGH_FILES} or more (`ulimit -Hn`, or LimitNOFILE= in a systemd unit)"
        log.warning("few_files_may_be_open", limit=limit, remedy=remedy)
    return asyncio.run(_serve(config, limit))


async def _serve(config: NodeConfig, max_files: int) -> int:
    from importlib.metadata import version

    from lograft.broker.node.node import HostProcess, Node, NodeRefused
    from lograft.raft.store.lmdb_store import open_lmdb_store
    from lograft.runtime.limits.buffer_budget import default_budget_bytes
    from lograft.runtime.observability.logging import get_logger, set_own_levels
    from lograft.runtime.observability.process_stats import process_stats
    from lograft.runtime.process.host import memory_bytes
    from lograft.runtime.production.node_runtime import (
        FAULTS_VARIABLE,
        close_production_runtime,
        node_boot_id,
        production_runtime,
    )
    from lograft.runtime.tasks.loop_lag import LoopLag

    log = get_logger(__name__)

    def panic(error: BaseException) -> None:
        """Exit at once: restarting from the disk is safe, continuing is not."""
        log.critical("panic", error=repr(error), exc_info=error)
        os._exit(EXIT_PANIC)

    def loop_failed(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, AssertionError):
            panic(error)
        log.error("loop_failed", message=context.get("message"), exc_info=error)

    asyncio.get_running_loop().set_exception_handler(loop_failed)
    if os.environ.get(FAULTS_VARIABLE):
        log.warning("faults_on_demand", directory=os.environ[FAULTS_VARIABLE], remedy=f"unset {FAULTS_VARIABLE}")
    runtime = production_runtime(panic)
    machine = HostProcess(
        node_boot_id(),
        open_lmdb_store,
        set_own_levels,
        lag=LoopLag(runtime.clock),
        process=process_stats,
        version=version("lograft"),
        max_files=max_files,
    )
    if config.network_buffer_bytes is None:
        config = replace(config, network_buffer_bytes=default_budget_bytes(memory_bytes()))
    log.info("network_buffer", size_bytes=config.network_buffer_bytes)
    node = Node(runtime, config, machine, panic)
    _stop_on_signals(node.stop)
    try:
        await node.run()
    except NodeRefused as error:
        raise StartRefused(str(error)) from None
    except Exception as error:
        panic(error)
    finally:
        await close_production_runtime(runtime)
    return 0


def _stop_on_signals(stop: Callable[[], None]) -> None:
    has_begun = False

    def received(number: signal.Signals) -> None:
        nonlocal has_begun
        if has_begun:
            os._exit(EXIT_BY_SIGNAL + number)
        has_begun = True
        stop()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received, number)
