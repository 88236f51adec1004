"""A run as a self-contained page: the verdict, a timeline, the evidence, and the command to repeat it. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from lograft.chaos.checkers.anomalies import Anomaly
from lograft.chaos.checkers.verdict import Verdict
from lograft.chaos.harness.outcome import Outcome
from lograft.chaos.history.entries import Fault, LeaderSeen, Note, began
from lograft.chaos.history.entry_codec import to_json
from lograft.chaos.history.history import History
from lograft.chaos.live.timeline_svg import Lane, Picture, Span, draw

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; color: #1d2330; }
h1 { font-size: 1.5rem; margin-bottom: .2rem } h2 { font-size: 1.1rem; margin-top: 2rem }
.held { color: #0a7a3d } .broken { color: #b3261e }
table { border-collapse: collapse } td, th { padding: .2rem .9rem .2rem 0; text-align: left; vertical-align: top }
td.number { text-align: right; font-variant-numeric: tabular-nums }
code, pre { font: 13px/1.4 ui-monospace, monospace } pre { background: #f4f5f7; padding: .7rem; overflow-x: auto }
svg { width: 100%; height: auto }
"""


@dataclass(frozen=True, slots=True)
class RunReport:
    """A description of a run. `replay` is the command that repeats it. `holds` says what must hold in this scenario,
    and `always` what must hold in all of them."""

    scenario: str
    tells: str
    seed: int
    duration_seconds: float
    version: str
    machine: str
    replay: str
    holds: str
    always: str


def html_report(run: RunReport, history: History, verdict: Verdict, trouble: str | None = None) -> str:
    """Return the page. `trouble` is the reason why the run did not complete, if it did not."""
    has_held = verdict.is_sound and trouble is None
    headline = "everything held" if has_held else "something was broken" if verdict.anomalies else "nothing is proved"
    parts = [
        f"<h1>{escape(run.scenario)}: <span class={'held' if has_held else 'broken'}>{headline}</span></h1>",
        f"<p>{escape(run.tells)}; {run.duration_seconds:g} s, seed {run.seed}.</p>",
        _must_hold(run),
        f"<p class=broken>{escape(trouble)}</p>" if trouble is not None else "",
        "".join(f"<p class=broken>not judged: {escape(each)}</p>" for each in verdict.unjudged),
        "<h2>What happened when</h2>",
        draw(_picture(history, verdict)),
        "<h2>How available it was</h2>",
        _availability(verdict),
        "<h2>What clients did</h2>",
        _operations(verdict),
        *_anomalies(verdict),
        "<h2>Faults</h2>",
        _faults(history, verdict),
        "<h2>Again</h2>",
        f"<pre>{escape(run.replay)}</pre>",
        "<p>The story follows from the seed; when processes do what does not. <code>history.jsonl</code> beside this "
        "page has all that clients did and were told, <code>node-N/output.txt</code> what the nodes said.</p>",
        f"<p>{escape(run.version)}, {escape(run.machine)}</p>",
    ]
    title = escape(f"{run.scenario}, seed {run.seed}")
    body = "\n".join(part for part in parts if part)
    return f"<!doctype html>\n<meta charset=utf-8>\n<title>{title}</title>\n<style>{_STYLE}</style>\n{body}\n"


def _must_hold(run: RunReport) -> str:
    return f"<p><b>What must hold:</b> {escape(run.holds)}. <b>And always:</b> {escape(run.always)}</p>"


def _availability(verdict: Verdict) -> str:
    known = verdict.availability
    rows = [("records acknowledged", f"{known.acknowledged} of {known.sends} ({known.acknowledged_share:.2%})")]
    rows.append(("seconds in which something was acknowledged", f"{known.available_share:.1%}"))
    if known.longest_pause is not None:
        rows.append(("longest pause of writes", f"{known.longest_pause.length_ms / 1000:.2f} s"))
    return _table(rows)


def _operations(verdict: Verdict) -> str:
    head = "<tr><th></th>" + "".join(f"<th>{outcome.value}</th>" for outcome in Outcome) + "</tr>"
    rows = [
        f"<tr><td>{escape(name)}</td>"
        + "".join(f"<td class=number>{counts.get(outcome, 0):,}</td>" for outcome in Outcome)
        + "</tr>"
        for name, counts in verdict.operation_counts.items()
        if name != Fault.__name__
    ]
    return f"<table>{head}{''.join(rows)}</table>"


def _faults(history: History, verdict: Verdict) -> str:
    """Return a table of the faults by kind, and the notes."""
    kinds: dict[str, list[float]] = {}
    for each in verdict.faults:
        kinds.setdefault(each.fault, []).append((each.end_s if each.end_s is not None else each.begin_s) - each.begin_s)
    rows = [(name, f"{len(spans)} times, {sum(spans):.1f} s together") for name, spans in sorted(kinds.items())]
    notes = "".join(f"<li>{escape(note.text)}</li>" for note in history.of(Note))
    return f"{_table(rows) if rows else '<p>None.</p>'}<details><summary>Notes</summary><ul>{notes}</ul></details>"


def _anomalies(verdict: Verdict) -> Iterable[str]:
    if not verdict.anomalies:
        return
    yield "<h2>Anomalies</h2>"
    yield _table([(name.value, f"{count:,}") for name, count in verdict.anomaly_counts.items()])
    for each in verdict.anomalies:
        yield f"<h3>{escape(each.name.value)}</h3><p>{escape(each.summary)}</p><pre>{_evidence(each)}</pre>"


def _evidence(anomaly: Anomaly) -> str:
    return "\n".join(escape(str(to_json(entry))) for entry in anomaly.evidence)


def _table(rows: Iterable[tuple[str, str]]) -> str:
    cells = "".join(f"<tr><td>{escape(name)}</td><td class=number>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table>{cells}</table>"


# -- picture


def _picture(history: History, verdict: Verdict) -> Picture:
    length_s = max([second.begin_s + 1 for second in verdict.timeline], default=1)
    return Picture(
        length_s,
        faults=[
            Span(f"{each.fault} {each.target}", each.begin_s, each.end_s or length_s, each.fault)
            for each in verdict.faults
        ],
        lanes=[
            Lane("records acknowledged a second", [float(second.acknowledged) for second in verdict.timeline]),
            Lane("latency, 99 % of them, ms", [second.p99_ms for second in verdict.timeline]),
        ],
        leaders=_leaders(history),
    )


def _leaders(history: History) -> dict[str, list[tuple[float, str]]]:
    """Return by partition the leaders that clients saw, each with the time from which it led."""
    begin_us = began(history.entries[0]).monotonic_us if history.entries else 0
    seen: dict[str, list[tuple[float, str]]] = {}
    latest: dict[str, int] = {}
    for each in history.of(LeaderSeen):
        name = str(each.partition)
        if each.leader_epoch > latest.get(name, -1):
            latest[name] = each.leader_epoch
            seen.setdefault(name, []).append(((each.at.monotonic_us - begin_us) / 1e6, f"node {each.broker}"))
    return dict(sorted(seen.items()))
