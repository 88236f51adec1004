"""A run as a page: what it says, and that nothing of it is taken for markup."""

from html.parser import HTMLParser

import pytest

from lograft.chaos.checkers.verdict import judge
from lograft.chaos.history.entries import (
    Acknowledged,
    Done,
    Fault,
    FinalReplica,
    LeaderSeen,
    Moment,
    Send,
    StoredRecord,
    TopicDeclared,
    digest_of,
)
from lograft.chaos.history.history import History
from lograft.chaos.live.html_report import RunReport, html_report
from lograft.chaos.live.timeline_svg import Lane, Picture, Span, draw
from lograft.clients.types import TopicPartition

RUN = RunReport(
    "kill-leader", "kill -9 & <so on>", 7, 20.0, "lograft 1", "a machine", "lograft chaos run kill-leader",
    "another one leads", "nothing is lost",
)  # fmt: skip
CHAOS_0 = TopicPartition("chaos", 0)


def at(seconds: float) -> Moment:
    return Moment(int(seconds * 1_000_000))


def history(stored: tuple[str, ...]) -> History:
    """Two records were acknowledged; these are there in the end."""
    records = tuple(StoredRecord(offset, 0, digest_of(value)) for offset, value in enumerate(stored))
    return History(
        [
            TopicDeclared(at(0), "chaos"),
            *(
                Send("s", n, at(n + 1), "chaos", value, "s", n, completion=Acknowledged(at(n + 1.5), 0, n))
                for n, value in enumerate(("one", "two"))
            ),
            Fault("nemesis", 0, at(1), "kill", "node 1", Done(at(2))),
            LeaderSeen(at(0.5), CHAOS_0, 0, 1, "asker"),
            LeaderSeen(at(2), CHAOS_0, 1, 2, "asker"),
            FinalReplica(at(4), CHAOS_0, 1, 0, len(records), records),
        ]
    )


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)


def tags_of(page: str) -> set[str]:
    parser = _Tags()
    parser.feed(page)
    return parser.found


def page_of(stored: tuple[str, ...], trouble: str | None = None) -> str:
    told = history(stored)
    return html_report(RUN, told, judge(told), trouble)


def test_a_good_run_says_so_and_how_to_do_it_again() -> None:
    page = page_of(("one", "two"))
    assert "everything held" in page
    assert "2 of 2 (100.00%)" in page
    assert "another one leads" in page
    assert "1 times, 1.0 s together" in page
    assert "lograft chaos run kill-leader" in page
    assert "kill node 1, 1.0 s to 2.0 s" in page
    assert "node 2 from 2.0 s" in page
    assert "Anomalies" not in page


def test_what_was_lost_is_named_with_its_evidence() -> None:
    page = page_of(("one",))
    assert "something was broken" in page
    assert "lost write" in page
    assert "&#x27;two&#x27;" in page


def test_a_cluster_that_does_not_recover_has_not_held() -> None:
    page = page_of(("one", "two"), "node 3: <down>")
    assert "everything held" not in page
    assert "node 3: &lt;down&gt;" in page


def test_what_is_told_is_no_markup_and_the_page_needs_nothing_else() -> None:
    page = page_of(("one", "two"))
    assert "kill -9 &amp; &lt;so on&gt;" in page
    assert not tags_of(page) & {"so", "script", "link", "img", "iframe"}
    assert "http" not in page


@pytest.mark.parametrize(
    "picture",
    [
        Picture(0),
        Picture(10, lanes=[Lane("nothing", [None, None])]),
        Picture(0.5, faults=[Span("a", 0, 99), Span("b", 0.1, 0.2)], lanes=[Lane("x", [0.0, 5.0])]),
        Picture(100_000, leaders={"t-0": [(0.0, "node 1")], "t-1": [(5.0, "node 2"), (5.0, "node 3")]}),
    ],
)
def test_any_run_can_be_drawn(picture: Picture) -> None:
    drawn = draw(picture)
    assert drawn.startswith("<svg")
    assert drawn.endswith("</svg>")
    assert "nan" not in drawn
    assert 'width="-' not in drawn


def test_faults_at_the_same_time_are_below_each_other() -> None:
    together = draw(Picture(10, faults=[Span("a", 1, 5), Span("b", 2, 3)]))
    in_turn = draw(Picture(10, faults=[Span("a", 1, 2), Span("b", 2, 3)]))
    assert len({line for line in together.split("<rect") if 'height="13"' in line}) == 2
    assert _heights(together) > _heights(in_turn)


def _heights(drawn: str) -> float:
    return float(drawn.partition('viewBox="0 0 ')[2].partition('"')[0].split()[1])
