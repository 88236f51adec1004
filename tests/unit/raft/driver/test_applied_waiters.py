"""Those who wait for an index to be applied."""

import asyncio

from lograft.raft.driver.reads import AppliedWaiters


def test_those_who_gave_up_do_not_pile_up_while_nothing_is_applied() -> None:
    async def main() -> None:
        waiters = AppliedWaiters()
        loop = asyncio.get_running_loop()
        patient = [loop.create_future() for _ in range(100)]
        for answer in patient:
            waiters.add(7, answer)
        for _ in range(10_000):
            answer = loop.create_future()
            waiters.add(7, answer)
            answer.cancel()
        assert len(waiters) < 500
        waiters.applied(7)
        assert [answer.result() for answer in patient] == [7] * 100

    asyncio.run(main())
