"""The progress of a run: on a terminal a few lines that are redrawn, elsewhere an occasional line."""

from collections.abc import Mapping
from typing import TextIO

from lograft.chaos.history.entries import Acknowledged, Completion, Event, Failed, LeaderSeen, Unknown
from lograft.chaos.history.history import HistoryWriter, TextSink
from lograft.clients.types import TopicPartition
from lograft.runtime.clock import LoopClock

_DRAWN_MS = 500
_PLAIN_MS = 5000
_FAULTS = 6
_BARS = " ▁▂▃▄▅▆▇█"
_CLEAR_RIGHT, _UP = "\x1b[K", "\x1b[{}A"


class Tally:
    """Totals of the outcomes that clients recorded."""

    def __init__(self) -> None:
        self.acknowledged = 0
        self.failed = 0
        self.unknown = 0
        self.leaders: dict[TopicPartition, tuple[int, int]] = {}  # epoch and broker

    def completed(self, completion: Completion) -> None:
        match completion:
            case Acknowledged():
                self.acknowledged += 1
            case Failed():
                self.failed += 1
            case Unknown():
                self.unknown += 1

    def happened(self, event: Event) -> None:
        if isinstance(event, LeaderSeen) and event.leader_epoch >= self.leaders.get(event.partition, (-1, 0))[0]:
            self.leaders[event.partition] = (event.leader_epoch, event.broker)


class TalliedWriter(HistoryWriter):
    def __init__(self, sink: TextSink, tally: Tally) -> None:
        super().__init__(sink)
        self._tally = tally

    def completed(self, process: str, number: int, completion: Completion) -> None:
        super().completed(process, number, completion)
        self._tally.completed(completion)

    def happened(self, event: Event) -> None:
        super().happened(event)
        self._tally.happened(event)


class LiveView:
    """The view of a run. Without `out`, it shows nothing."""

    def __init__(self, out: TextIO | None = None) -> None:
        self.tally = Tally()
        self._out = out
        self._is_drawn = out is not None and out.isatty()
        self._drawn_lines = 0
        self._under_way: Mapping[int, str] = {}
        self._began_ms: float | None = None
        self._lasts_ms = 0.0
        self._says = ""
        self._per_second: list[float] = []

    def begins(self, under_way: Mapping[int, str], seconds: float) -> None:
        """Note that the story begins. `under_way` holds the present faults at any time."""
        self._under_way = under_way
        self._began_ms, self._lasts_ms = LoopClock().monotonic_ms(), seconds * 1000
        self.says("")

    def says(self, text: str) -> None:
        """Show a step of the run outside the story."""
        self._says = text
        if text and self._out is not None and not self._is_drawn:
            print(text, file=self._out, flush=True)

    async def run(self) -> None:
        """Update the view until cancelled."""
        if self._out is None:
            return
        period_ms = _DRAWN_MS if self._is_drawn else _PLAIN_MS
        counted = self.tally.acknowledged
        try:
            while True:
                await LoopClock().sleep_ms(period_ms)
                now = self.tally.acknowledged
                self._per_second = [*self._per_second[-39:], (now - counted) * 1000 / period_ms]
                counted = now
                if self._is_drawn:
                    self._draw(self.lines())
                else:
                    print(self.plain_line(), file=self._out, flush=True)
        finally:
            if self._is_drawn:
                self._draw([])

    def _draw(self, lines: list[str]) -> None:
        """Draw over the previous lines."""
        assert self._out is not None
        up = _UP.format(self._drawn_lines) if self._drawn_lines else ""
        blank = [""] * max(self._drawn_lines - len(lines), 0)
        self._out.write("\r" + up + "".join(f"{line}{_CLEAR_RIGHT}\n" for line in [*lines, *blank]))
        if blank:
            self._out.write(_UP.format(len(blank)))
        self._out.flush()
        self._drawn_lines = len(lines)

    def lines(self) -> list[str]:
        faults = list(self._under_way.values())
        more = [f"  and {len(faults) - _FAULTS} more"] if len(faults) > _FAULTS else []
        return [
            f"{self._clock()}   {self._says}",
            f"{_bars(self._per_second)}  {self._rate():,.0f} records/s   {self._counts()}",
            f"leaders  {self._leaders()}",
            "faults   " + ("none" if not faults else ""),
            *(f"  {fault}" for fault in faults[:_FAULTS]),
            *more,
        ]

    def plain_line(self) -> str:
        faults = ", ".join(self._under_way.values()) or "no faults"
        return f"{self._clock()}  {self._rate():,.0f} records/s  {self._counts()}  {faults}"

    def _clock(self) -> str:
        if self._began_ms is None:
            return "  0 s"
        passed_ms = LoopClock().monotonic_ms() - self._began_ms
        return f"{passed_ms / 1000:3.0f} s of {self._lasts_ms / 1000:.0f} s"

    def _rate(self) -> float:
        return self._per_second[-1] if self._per_second else 0.0

    def _counts(self) -> str:
        tally = self.tally
        return f"{tally.acknowledged:,} acknowledged, {tally.failed:,} calls failed, {tally.unknown:,} unknown"

    def _leaders(self) -> str:
        return "  ".join(
            f"{name.topic}-{name.partition}: {leader}" for name, (_, leader) in sorted(self.tally.leaders.items())
        )


def _bars(values: list[float]) -> str:
    highest = max(values, default=0.0) or 1.0
    return "".join(_BARS[round(value / highest * (len(_BARS) - 1))] for value in values)
