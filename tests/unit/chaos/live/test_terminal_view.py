"""What people see of a run while it goes on."""

import asyncio
import io

from lograft.chaos.history.entries import Acknowledged, Done, Failed, LeaderSeen, Moment, Send, Unknown
from lograft.chaos.history.history import read_history
from lograft.chaos.live.terminal_view import LiveView, TalliedWriter
from lograft.clients.types import TopicPartition

NOW = Moment(1, 1)
CHAOS_0 = TopicPartition("chaos", 0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_is_written_is_counted_and_written() -> None:
    view, sink = LiveView(), io.StringIO()
    writer = TalliedWriter(sink, view.tally)
    for number, completion in enumerate([Acknowledged(NOW, 0), Failed(NOW, "NO"), Unknown(NOW), Done(NOW)]):
        writer.invoked(Send("s", number, NOW, "chaos", f"v{number}", "s", number))
        writer.completed("s", number, completion)  # type: ignore[arg-type]
    writer.happened(LeaderSeen(NOW, CHAOS_0, 4, 2, "asker"))
    writer.happened(LeaderSeen(NOW, CHAOS_0, 3, 1, "asker"))
    tally = view.tally
    assert (tally.acknowledged, tally.failed, tally.unknown) == (1, 1, 1)
    assert tally.leaders == {CHAOS_0: (4, 2)}
    sink.seek(0)
    assert len(read_history(line for line in sink if '"as":{"is":"Done"' not in line).of(Send)) == 4


def test_lines_tell_of_faults_leaders_and_counts() -> None:
    async def look() -> tuple[list[str], str]:
        view = LiveView()
        view.tally.happened(LeaderSeen(NOW, CHAOS_0, 4, 2, "asker"))
        view.tally.completed(Acknowledged(NOW, 0))
        view.begins({number: f"kill node {number}" for number in range(8)}, 60)
        return view.lines(), view.plain_line()

    lines, plain = asyncio.run(look())
    assert lines[0].startswith("  0 s of 60 s")
    assert "1 acknowledged, 0 calls failed, 0 unknown" in lines[1]
    assert lines[2] == "leaders  chaos-0: 2"
    assert lines[4:] == [*(f"  kill node {number}" for number in range(6)), "  and 2 more"]
    assert "kill node 7" in plain
    assert "\n" not in plain


def test_a_terminal_is_drawn_upon_in_place_and_left_clean() -> None:
    async def look(out: io.StringIO) -> None:
        view = LiveView(out)
        view.begins({}, 60)
        view._draw(["one", "two", "three"])
        view._draw(["four"])
        view._draw([])

    out = Terminal()
    asyncio.run(look(out))
    clear = "\x1b[K\n"
    drawn = f"\rone{clear}two{clear}three{clear}"
    again = f"\r\x1b[3Afour{clear}{clear}{clear}\x1b[2A"
    assert out.getvalue() == drawn + again + f"\r\x1b[1A{clear}\x1b[1A"


def test_where_there_is_no_terminal_each_step_is_a_line() -> None:
    out = io.StringIO()
    view = LiveView(out)
    view.says("starting the nodes")
    assert out.getvalue() == "starting the nodes\n"
