"""Long random lives of a log: which operations, how often, all from one seed."""

from typing import Any

from support.log_model import Story

from lograft.chaos.world.loop import run_virtual
from lograft.runtime.rng import Rng
from lograft.storage.log.log_config import FlushMode, LogConfig

# Each operation with its weight, and a maker of its arguments.
MENU: list[tuple[int, Any, Any]] = [
    (30, Story.append, lambda rng: (rng.randint(1, 4), rng.randint(0, 2))),
    (10, Story.follow, lambda rng: (rng.randint(1, 4), rng.choice([0, 0, 3]))),
    (3, Story.next_epoch, lambda rng: ()),
    (6, Story.wait_stable, lambda rng: ()),
    (8, Story.advance_watermark, lambda rng: ()),
    (6, Story.pause, lambda rng: (rng.choice([1, 10, 300]),)),
    (4, Story.roll, lambda rng: ()),
    (8, Story.read, lambda rng: (rng.random(), rng.choice([1, 200, 1000, 100_000]), rng.random())),
    (1, Story.read_out_of_range, lambda rng: ()),
    (4, Story.find_time, lambda rng: (rng.random(),)),
    (6, Story.truncate, lambda rng: (rng.random(),)),
    (3, Story.delete_prefix, lambda rng: (rng.random() ** 2,)),
    (2, Story.retention, lambda rng: (rng.choice([0, 0, 700]),)),
    (5, Story.compact, lambda rng: ()),
    (4, Story.checkpoint, lambda rng: ()),
    (4, Story.flush, lambda rng: ()),
    (3, Story.reopen, lambda rng: ()),
    (2, Story.check_all, lambda rng: ()),
    (1, Story.fail_sync, lambda rng: ()),
    (2, Story.cancel, lambda rng: (rng.choice([0, 0.1, 1]),)),
    (10, Story.crash_soon, lambda rng: (rng.randint(1, 40), rng.random() < 0.5)),
]


def random_config(rng: Rng) -> LogConfig:
    return LogConfig(
        segment_bytes=rng.choice([300, 1000, 5000]),
        tail_bytes=rng.choice([0, 400, 100_000]),
        index_interval_bytes=200,
        flush_mode=rng.choice(list(FlushMode)),
        retention_ms=rng.choice([-1, 3000]),
        retention_bytes=rng.choice([-1, 5000]),
        cleanup_compact=True,
        delete_retention_ms=rng.choice([0, 500]),
        min_cleanable_dirty_ratio=0.1,
    )


def live(seed: int, steps: int) -> Story:
    """One life of `steps` operations, ending with a check of everything."""
    rng = Rng(seed)
    config = random_config(rng)

    async def main() -> Story:
        story = Story(rng.getrandbits(32), config)
        await story.start()
        weights = [weight for weight, _, _ in MENU]
        for _ in range(steps):
            _, operation, arguments = rng.choices(MENU, weights)[0]
            await story.run(operation, *arguments(rng))
        story.files.points.restart()
        await story.run(Story.check_all)
        await story.run(Story.reopen)
        return story

    return run_virtual(main)
