"""The line that is written over: what is left of it on the terminal."""

import io

import pytest

from lograft.runtime.process.status_line import StatusLine


class InterruptedOnceSeen(io.StringIO):
    """Ctrl+C comes as soon as something is shown."""

    interrupts = True

    def flush(self) -> None:
        if self.interrupts:
            self.interrupts = False
            raise KeyboardInterrupt


def test_it_is_written_over_and_gone_in_the_end() -> None:
    out = io.StringIO()
    line = StatusLine(out)
    line.clear()
    assert not out.getvalue(), "nothing was there"
    line.show("1 of 2")
    line.show("2 of 2")
    line.clear()
    line.clear()
    assert out.getvalue() == "\r1 of 2\x1b[K\r2 of 2\x1b[K\r\x1b[K"


def test_it_is_gone_though_ctrl_c_came_as_soon_as_it_was_seen() -> None:
    out = InterruptedOnceSeen()
    line = StatusLine(out)
    with pytest.raises(KeyboardInterrupt):
        line.show("1 of 2")
    line.clear()
    assert out.getvalue() == "\r1 of 2\x1b[K\r\x1b[K"


def test_what_is_too_wide_is_cut() -> None:
    out = io.StringIO()
    StatusLine(out).show("x" * 100)
    assert out.getvalue() == f"\r{'x' * 79}\x1b[K"
