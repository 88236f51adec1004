"""Faults and the figures that clients saw, drawn as SVG over a common time axis. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape

_WIDTH, _LEFT, _RIGHT = 960, 185, 10
_FAULT_HEIGHT, _LANE_HEIGHT, _LEADER_HEIGHT, _GAP = 16, 90, 20, 26
_COLOURS = ("#3b6fd4", "#e08a1e", "#2a9d6f", "#a04fc4", "#c43f5f", "#5c6770", "#8f8a1c")
_INK, _FAINT, _FAULT = "#1d2330", "#d9dde3", "#e9a5a0"


@dataclass(frozen=True, slots=True)
class Span:
    """Something with a duration, in seconds from the beginning. Spans of one `kind` are drawn together."""

    name: str
    begin_s: float
    end_s: float
    kind: str = "fault"


@dataclass(frozen=True, slots=True)
class Lane:
    """A value for each second; None where there is none."""

    name: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Picture:
    """The content of a timeline. `leaders` lists by partition each leader, with the time from which it led."""

    length_s: float
    faults: Sequence[Span] = ()
    lanes: Sequence[Lane] = ()
    leaders: dict[str, list[tuple[float, str]]] = field(default_factory=dict)


def draw(picture: Picture) -> str:
    """Return an SVG element."""
    rows = _rows(picture.faults)
    fault_height = len(rows) * _FAULT_HEIGHT
    lanes_at = _GAP + fault_height + _GAP
    leaders_at = lanes_at + len(picture.lanes) * (_LANE_HEIGHT + _GAP)
    height = leaders_at + len(picture.leaders) * _LEADER_HEIGHT + _GAP
    parts = [
        *_axis(picture, height),
        *_faults(picture, rows, lanes_at, leaders_at),
        *(
            text
            for at, lane in enumerate(picture.lanes)
            for text in _lane(picture, lane, lanes_at + at * (_LANE_HEIGHT + _GAP), _COLOURS[at])
        ),
        *_leaders(picture, leaders_at),
    ]
    style = "font: 11px system-ui, sans-serif"
    return f'<svg viewBox="0 0 {_WIDTH} {height}" style="{style}" role="img">{"".join(parts)}</svg>'


def _x(picture: Picture, seconds: float) -> float:
    share = min(max(seconds / max(picture.length_s, 1e-9), 0.0), 1.0)
    return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)


def _rows(faults: Sequence[Span]) -> list[list[Span]]:
    """Assign the faults to rows. Each kind has its own rows, one below the other if its faults overlap."""
    kinds: dict[str, list[list[Span]]] = {}
    for fault in sorted(faults, key=lambda each: each.begin_s):
        rows = kinds.setdefault(fault.kind, [])
        free = next((row for row in rows if row[-1].end_s <= fault.begin_s), None)
        if free is None:
            rows.append([fault])
        else:
            free.append(fault)
    return [row for kind in sorted(kinds) for row in kinds[kind]]


def _axis(picture: Picture, height: float) -> Iterator[str]:
    step = next((each for each in (1, 2, 5, 10, 30, 60, 300) if picture.length_s / each <= 12), 600)
    for second in range(0, int(picture.length_s) + 1, step):
        x = _x(picture, second)
        yield f'<line x1="{x}" y1="14" x2="{x}" y2="{height}" stroke="{_FAINT}"/>'
        yield f'<text x="{x}" y="10" fill="{_INK}" text-anchor="middle">{second} s</text>'


def _faults(picture: Picture, rows: list[list[Span]], lanes_at: float, leaders_at: float) -> Iterator[str]:
    if not rows:
        yield _label("no faults", _GAP)
        return
    named = ""
    for at, row in enumerate(rows):
        if row[0].kind != named:
            named = row[0].kind
            yield _label(named, _GAP + at * _FAULT_HEIGHT + 10)
        for fault in row:
            x, width = _x(picture, fault.begin_s), max(_x(picture, fault.end_s) - _x(picture, fault.begin_s), 2)
            y = _GAP + at * _FAULT_HEIGHT
            yield (
                f'<rect x="{x}" y="{y}" width="{width}" height="{_FAULT_HEIGHT - 3}" fill="{_FAULT}">'
                f"<title>{escape(fault.name)}, {fault.begin_s:.1f} s to {fault.end_s:.1f} s</title></rect>"
                f'<rect x="{x}" y="{lanes_at - 8}" width="{width}" height="{leaders_at - lanes_at}" fill="{_FAULT}" '
                'opacity="0.25"/>'
            )


def _lane(picture: Picture, lane: Lane, top: float, colour: str) -> Iterator[str]:
    known = [value for value in lane.values if value is not None]
    highest = max(known, default=0) or 1
    bottom = top + _LANE_HEIGHT
    yield _label(lane.name, top + 10)
    yield _label(f"up to {highest:,.0f}", top + 26)
    yield f'<line x1="{_LEFT}" y1="{bottom}" x2="{_WIDTH - _RIGHT}" y2="{bottom}" stroke="{_FAINT}"/>'
    for second, value in enumerate(lane.values):
        if value is not None:
            x, width = _x(picture, second), _x(picture, second + 1) - _x(picture, second)
            tall = round(value / highest * _LANE_HEIGHT, 1)
            yield (
                f'<rect x="{x}" y="{bottom - tall}" width="{max(width - 1, 0.5):.1f}" height="{tall}" fill="{colour}">'
                f"<title>{second} s: {value:,.1f}</title></rect>"
            )


def _leaders(picture: Picture, top: float) -> Iterator[str]:
    nodes = sorted({who for spans in picture.leaders.values() for _, who in spans})
    for at, (partition, spans) in enumerate(picture.leaders.items()):
        y = top + at * _LEADER_HEIGHT
        yield _label(f"leader of {partition}", y + 12)
        ends = [begin for begin, _ in spans[1:]] + [picture.length_s]
        for (begin, who), end in zip(spans, ends, strict=True):
            x, width = _x(picture, begin), max(_x(picture, end) - _x(picture, begin), 1)
            colour = _COLOURS[nodes.index(who) % len(_COLOURS)]
            yield (
                f'<rect x="{x}" y="{y}" width="{width:.1f}" height="{_LEADER_HEIGHT - 5}" fill="{colour}">'
                f"<title>{escape(who)} from {begin:.1f} s</title></rect>"
            )
            if width > 45:
                yield f'<text x="{x + 4}" y="{y + 11}" fill="white">{escape(who)}</text>'


def _label(text: str, y: float) -> str:
    return f'<text x="0" y="{y}" fill="{_INK}">{escape(text)}</text>'
