"""Write a small partition log into a directory, to inspect with `lograft dump-log`."""

import asyncio
import sys

from lograft.runtime.production.node_runtime import close_production_runtime, production_runtime
from lograft.storage.batch.codec import encode_batch
from lograft.storage.batch.compression import Compression
from lograft.storage.files.file_names import PartitionName
from lograft.storage.log.admission import admit
from lograft.storage.log.data_directory import open_directory
from lograft.storage.log.log_config import LogConfig


def stop(error: BaseException) -> None:
    raise error


async def main(path: str) -> None:
    runtime = production_runtime(on_panic=stop)
    directory = await open_directory(runtime, path)
    config = LogConfig(segment_bytes=4096)
    name = next(iter(await directory.partitions()), PartitionName("orders", 0, runtime.rng.uuid()))
    log = await directory.open_partition(name, config)
    log.assign_epoch((log.epochs.latest.epoch if log.epochs.latest else 0) + 1)
    for number in range(40):
        batch = encode_batch(
            [b'{"order": %d, "item": %d}' % (number, item) for item in range(5)],
            keys=[b"order-%d" % number] * 5,
            timestamps=runtime.clock.wall_ms(),
            compression=Compression(number % 5),
        )
        assert log.epochs.latest is not None
        log.append_as_leader(admit(batch, config, runtime.clock.wall_ms()), log.epochs.latest.epoch)
    await log.wait_stable(log.end_offset)
    print(f"{log.directory}: offsets {log.start_offset} to {log.end_offset - 1} in {len(log.segments)} segments")
    await directory.close(broker_epoch=0)
    await close_production_runtime(runtime)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
