import asyncio
import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lograft.runtime.observability.log_levels import MODULES, normal_levels
from lograft.runtime.observability.logging import bind_context, configure_logging, get_logger, set_level, set_own_levels


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("lograft")
    handlers, level = list(root.handlers), ours.level
    yield
    root.handlers[:] = handlers
    ours.setLevel(level)
    for name in ("lograft.test", "lograft.test.noisy"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_events_are_json_lines_when_the_stream_is_no_terminal() -> None:
    stream = io.StringIO()
    configure_logging(stream=stream)
    get_logger("lograft.test").bind(node_id=3).info("isr_shrunk", topic="orders", isr=[1, 2], key=b"\x01\xff")
    (line,) = lines(stream)
    written = datetime.fromisoformat(str(line.pop("timestamp")))
    assert written.utcoffset() == datetime.now(UTC).utcoffset()
    assert line == {
        "event": "isr_shrunk",
        "level": "info",
        "logger": "lograft.test",
        "node_id": 3,
        "topic": "orders",
        "isr": [1, 2],
        "key": "01ff",
    }


def test_events_are_readable_on_a_terminal() -> None:
    stream = Terminal()
    configure_logging(stream=stream)
    get_logger("lograft.test").warning("disk_slow", milliseconds=12)
    text = stream.getvalue()
    assert "disk_slow" in text
    assert "milliseconds" in text
    assert "\x1b[" in text
    assert not text.startswith("{")


def test_the_form_can_be_chosen() -> None:
    stream, plain = Terminal(), io.StringIO()
    configure_logging(stream=stream, json=True)
    get_logger("lograft.test").info("one")
    assert lines(stream)[0]["event"] == "one"
    configure_logging(stream=plain, json=False)
    get_logger("lograft.test").info("two", number=2)
    assert "two" in plain.getvalue()
    assert "number=2" in plain.getvalue()
    assert "\x1b[" not in plain.getvalue()
    assert len(lines(stream)) == 1


def test_an_exception_is_a_field() -> None:
    stream = io.StringIO()
    configure_logging(stream=stream)
    log = get_logger("lograft.test")
    try:
        raise ValueError("broken invariant")
    except ValueError as error:
        log.exception("node_stops")
        caught = error
    log.error("again", exc_info=caught)
    for line in lines(stream):
        assert "ValueError: broken invariant" in str(line["exception"])
        assert "test_logging.py" in str(line["exception"])
        assert line["level"] == "error"


def test_fields_may_have_any_name_but_do_not_replace_what_every_event_has() -> None:
    stream = io.StringIO()
    configure_logging(stream=stream)
    fields = {"name": "n", "msg": "m", "message": "x", "process": 1, "args": 2, "level": "l", "event": "e", "self": 0}
    get_logger("lograft.test").info("odd_fields", **fields)
    (line,) = lines(stream)
    assert line["event"] == "odd_fields"
    assert line["level"] == "info"
    assert [line[key] for key in ("name", "msg", "message", "process", "args")] == ["n", "m", "x", 1, 2]


def test_levels_can_be_switched_for_one_module_while_running() -> None:
    stream = io.StringIO()
    configure_logging("warning", stream=stream)
    quiet, noisy = get_logger("lograft.test"), get_logger("lograft.test.noisy")
    noisy.debug("before")
    set_level("lograft.test.noisy", "debug")
    assert noisy.is_enabled_for("debug")
    noisy.debug("during")
    quiet.info("elsewhere")
    set_level("lograft.test.noisy", None)
    noisy.debug("after")
    assert [line["event"] for line in lines(stream)] == ["during"]


def test_parts_have_levels_of_their_own_until_others_are_set() -> None:
    raft, node, broker = (
        logging.getLogger(name) for name in ("lograft.raft", "lograft.raft.driver.raft_node", "lograft.broker")
    )
    set_own_levels("warning,lograft.raft=debug,lograft.raft.driver.raft_node=error")
    assert [each.getEffectiveLevel() for each in (raft, node, broker)] == [
        logging.DEBUG, logging.ERROR, logging.WARNING,
    ]  # fmt: skip
    set_own_levels("info")
    assert [each.getEffectiveLevel() for each in (raft, node, broker)] == [logging.INFO] * 3


@pytest.mark.parametrize("before", ["debug", "error"])
def test_what_no_level_is_given_for_is_at_info_whatever_was_before(before: str) -> None:
    set_own_levels(before)
    set_own_levels("lograft.raft=debug")
    assert logging.getLogger("lograft.broker").getEffectiveLevel() == logging.INFO
    assert logging.getLogger("lograft.raft").getEffectiveLevel() == logging.DEBUG
    set_own_levels("info")


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("Info", "info"),
        (" lograft.raft = DEBUG , warning ", "warning,lograft.raft=debug"),
        ("lograft=error", "error"),
        ("lograft.broker.replica.replica=debug", "lograft.broker.replica.replica=debug"),
        ("loud", None),
        ("info,debug", None),
        ("info,lograft=debug", None),
        ("lograft.raft=loud", None),
        ("lograft.raftt=debug", None),
        ("lograft.raft.core.raft_core=debug", None),
        ("raft=debug", None),
        ("info,", None),
        ("", None),
        ("=debug", None),
    ],
)
def test_levels_have_one_normal_spelling(text: str, normal: str | None) -> None:
    assert normal_levels(text) == normal
    assert normal is None or normal_levels(normal) == normal


def test_the_names_of_modules_that_log_are_known() -> None:
    root = Path(__file__).resolve().parents[4]
    rooms = ("broker", "metadata", "raft", "storage")
    logging_modules = [
        ".".join(path.relative_to(root).with_suffix("").parts)
        for room in rooms
        for path in sorted((root / room).glob("**/*.py"))
        if "get_logger(__name__)" in path.read_text()
    ]
    assert sorted(MODULES) == sorted(logging_modules)


def test_an_unknown_level_names_those_there_are() -> None:
    with pytest.raises(ValueError, match="unknown log level 'loud': one of debug, info, warning, error, critical"):
        configure_logging("loud")


def test_context_goes_with_every_event_of_a_task_and_its_children_only() -> None:
    stream = io.StringIO()
    configure_logging(stream=stream)
    log = get_logger("lograft.test")

    async def work() -> None:
        log.info("work")

    async def node(node_id: int) -> None:
        bind_context(node_id=node_id)
        async with asyncio.TaskGroup() as group:
            group.create_task(work())

    async def main() -> None:
        await asyncio.gather(node(1), node(2))
        log.info("outside")

    asyncio.run(main())
    assert [line.get("node_id") for line in lines(stream)] == [1, 2, None]


def test_warnings_of_libraries_are_rendered_too() -> None:
    stream = io.StringIO()
    configure_logging(stream=stream)
    logging.getLogger("some.library").warning("odd: %s", 7)
    logging.getLogger("some.library").info("chatter")
    assert [(line["logger"], line["event"]) for line in lines(stream)] == [("some.library", "odd: 7")]


def run_python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)


def test_nothing_is_printed_and_structlog_not_imported_unless_configured() -> None:
    done = run_python(
        "import sys, lograft\n"
        "from lograft.runtime.observability.logging import get_logger\n"
        "log = get_logger('lograft.test')\n"
        "log.info('a'); log.error('b', exc_info=ValueError()); log.critical('c')\n"
        "assert 'structlog' not in sys.modules\n"
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_a_program_that_configures_the_standard_logging_sees_our_events_as_text() -> None:
    done = run_python(
        "import logging\n"
        "logging.basicConfig(format='%(name)s %(module)s: %(message)s')\n"
        "from lograft.runtime.observability.logging import get_logger\n"
        "get_logger('lograft.test').warning('isr_shrunk', topic='orders', isr=[1])\n"
    )
    assert done.stderr == "lograft.test <string>: isr_shrunk topic='orders' isr=[1]\n"
