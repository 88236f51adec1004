"""The harness bites: where disks lie about syncs, a power failure takes what was acknowledged, and that is found."""

from pathlib import Path

from lograft.chaos.checkers.anomalies import AnomalyName
from lograft.chaos.live.judged_run import judge_run
from lograft.chaos.live.run import Effort
from lograft.chaos.live.stories.story import Scenario, StoryContext

LOSSES = {
    AnomalyName.LOST_WRITE,
    AnomalyName.TAKEN_BACK,
    AnomalyName.REPLICA_DIVERGENCE,
    AnomalyName.INCONSISTENT_OFFSETS,  # another record has been stored where the one that is lost was
}


async def _lying_disks(stage: StoryContext) -> None:
    for node in stage.nemesis.cluster.nodes.values():
        node.change_machine(lies_about_syncs=True)
    await stage.pass_ms(4000, 4000)
    async with stage.nemesis.powerless(*stage.nodes):
        for node in stage.nemesis.cluster.nodes.values():
            node.change_machine(lies_about_syncs=False)


def test_what_disks_that_lie_have_lost_is_missed(tmp_path: Path) -> None:
    scenario = Scenario("lying-disks", "syncs return, and nothing is durable", "nothing does", _lying_disks)
    judged = judge_run(scenario, 5, 6.0, tmp_path, "", effort=Effort(healed_seconds=20))
    assert not judged.has_held
    # Or so much is gone that a node refuses to start: that is told, and records are not asked for in vain.
    is_missed = LOSSES & set(judged.verdict.anomaly_counts) or judged.trouble is not None
    assert is_missed, judged.verdict.anomaly_counts
