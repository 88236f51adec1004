"""What was acknowledged in the life of one partition, and who must have it."""

from support.replica_logs import Entry, MiniatureLog

from lograft.broker.replication.leader_core import LeaderCore
from lograft.metadata.image.partition import LeaderEpoch


class Ledger:
    """What was acknowledged: all below the high watermark of any leader, whoever else believed to lead. Whoever is in
    sync or eligible has it, on its disk, at the same offset. And what clients were told by a leader is never more than
    what a later one tells them. Unless an unclean election gave it up."""

    def __init__(self) -> None:
        self.acknowledged: list[Entry] = []
        self.told: dict[LeaderEpoch, tuple[int, int]] = {}

    def risen(self, core: LeaderCore, log: MiniatureLog, unclean_epoch: LeaderEpoch | None) -> None:
        """A leader may tell its high watermark."""
        if core.leader_epoch < (unclean_epoch or 0):
            return
        if core.watermark_is_known:
            least, most = self.told.get(core.leader_epoch, (core.high_watermark, 0))
            assert core.high_watermark >= most, "a watermark went back"
            self.told[core.leader_epoch] = (least, core.high_watermark)
            self._check_told()
        known, start = len(self.acknowledged), log.start_offset
        common = log.entries(start, min(known, core.high_watermark))
        assert common == self.acknowledged[start : start + len(common)], "another record than was acknowledged"
        if core.high_watermark > known:
            assert start <= known
            self.acknowledged += log.entries(known, core.high_watermark)

    def _check_told(self) -> None:
        highest = 0
        for epoch in sorted(self.told):
            least, most = self.told[epoch]
            assert least >= highest, f"clients were told {highest} before epoch {epoch}, and {least} in it"
            highest = max(highest, most)

    def check(self, holder: str, log: MiniatureLog) -> None:
        end = len(self.acknowledged)
        assert log.stable_end >= end, f"{holder} has only {log.stable_end} of {end} acknowledged"
        start = min(log.start_offset, end)
        held = log.entries(start, end) if start >= log.start_offset else []
        assert held == self.acknowledged[start:end], f"{holder} has another record than was acknowledged"

    def given_up(self, log: MiniatureLog) -> None:
        """Only what the elected has, durably, is left."""
        kept = log.start_offset
        for ours, theirs in zip(self.acknowledged[kept:], log.entries(kept, log.stable_end), strict=False):
            if ours != theirs:
                break
            kept += 1
        del self.acknowledged[kept:]
        self.told.clear()
