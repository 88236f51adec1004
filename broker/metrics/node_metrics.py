"""Every node's part of `/metrics`: its process, and its servers' requests."""

from collections.abc import Sequence

from lograft.broker.metrics import families
from lograft.broker.requests.call_stats import ServerStats
from lograft.runtime.limits.buffer_budget import BufferBudget
from lograft.runtime.network import Server
from lograft.runtime.observability.process_stats import ProcessStats
from lograft.runtime.observability.prometheus_text import Exposition
from lograft.storage.log.data_directory import DataDirectory


def add_process(page: Exposition, process: ProcessStats) -> None:
    page.add(families.CPU, process.cpu_seconds)
    page.add(families.MAX_FILES, process.max_files)
    page.add(families.STARTED, process.started_seconds)
    page.add(families.PYTHON_INFO, 1, process.python_implementation, process.python_version)
    for generation, figures in enumerate(process.generations):
        page.add(families.GC_COLLECTIONS, figures.collections, str(generation))
        page.add(families.GC_COLLECTED, figures.collected, str(generation))
        page.add(families.GC_UNCOLLECTABLE, figures.uncollectable, str(generation))
    if process.virtual_bytes is not None:
        page.add(families.VIRTUAL, process.virtual_bytes)
    if process.resident_bytes is not None:
        page.add(families.RESIDENT, process.resident_bytes)
    if process.open_files is not None:
        page.add(families.OPEN_FILES, process.open_files)


def add_connections(page: Exposition, listener: str, server: Server) -> None:
    """`listener`: clients, nodes or controllers."""
    page.add(families.CONNECTIONS, server.connections, listener)
    page.add(families.CONNECTIONS_REFUSED, server.connections_refused, listener)


def add_budget(page: Exposition, budget: BufferBudget) -> None:
    page.add(families.BUFFER_LIMIT, budget.bytes.limit_bytes)
    page.add(families.BUFFER_BYTES, budget.bytes.held_bytes)
    page.add(families.BUFFER_WAITING, len(budget.bytes.waiting))
    page.add(families.BUFFER_WAITS, budget.bytes.counts.waited)
    page.add(families.READERS_CUT_OFF, budget.cut_off)


def add_server(page: Exposition, server: str, stats: ServerStats) -> None:
    """`server`: broker or controller. Omit methods without requests."""
    for each in stats:
        if not each.requests and not each.open:
            continue
        method = each.method
        page.add(families.REQUESTS, each.requests, server, method)
        page.add(families.OPEN_STREAMS, each.open, server, method)
        for code, count in each.errors.items():
            page.add(families.REQUEST_ERRORS, count, server, method, code)
        if each.seconds.count:
            page.add_histogram(families.REQUEST_SECONDS, each.seconds, server, method)
    for method, count in stats.slow.counts.items():
        page.add(families.SLOW_REQUESTS, count, server, method)


def add_disks(page: Exposition, directories: Sequence[DataDirectory]) -> None:
    for directory in directories:
        space = directory.space
        page.add(families.DISK_FREE, space.free_bytes, directory.path)
        page.add(families.DISK_TOTAL, space.disk_bytes, directory.path)
        page.add(families.DISK_RESERVE, space.reserve_bytes, directory.path)
        page.add(families.DISK_FULL, int(space.is_full), directory.path)
