"""A service on asyncio that reads questions from one topic and writes the answers to another, until it is stopped.

python examples/asyncio_service.py localhost:9092
"""

import asyncio
import contextlib
import sys

from lograft import aio, errors

QUESTIONS, ANSWERS = "service-questions", "service-answers"


async def create_topics(bootstrap: str) -> None:
    async with aio.Admin(bootstrap) as admin:
        for topic in (QUESTIONS, ANSWERS):
            with contextlib.suppress(errors.TopicAlreadyExists):
                await admin.create_topic(topic)


async def serve(consumer: aio.Consumer, producer: aio.Producer) -> None:
    """Answer questions until `consumer.wakeup()` interrupts a waiting poll."""
    while True:
        try:
            questions = await consumer.poll()
        except errors.WakeupError:
            return
        deliveries = [await producer.send(ANSWERS, (each.value or b"").upper(), key=each.key) for each in questions]
        for delivery in deliveries:
            await delivery


async def ask(bootstrap: str, questions: list[bytes]) -> list[bytes | None]:
    """Send the questions and return their answers, in order."""
    async with (
        aio.Producer(bootstrap) as producer,
        aio.Consumer(bootstrap, auto_offset_reset="latest") as consumer,
    ):
        await consumer.assign(await consumer.partitions_for(ANSWERS))
        await consumer.position((ANSWERS, 0))  # from here on, no answer is missed
        for number, question in enumerate(questions):
            await producer.send(QUESTIONS, question, key=b"%d" % number)
        answers: list[bytes | None] = []
        async for record in consumer:
            answers.append(record.value)
            if len(answers) == len(questions):
                return answers
    raise AssertionError("iterating a consumer never ends")


async def main(bootstrap: str) -> None:
    await create_topics(bootstrap)
    async with (
        aio.Producer(bootstrap) as producer,
        aio.Consumer(bootstrap, auto_offset_reset="latest") as consumer,
        asyncio.TaskGroup() as group,
    ):
        await consumer.assign(await consumer.partitions_for(QUESTIONS))
        await consumer.position((QUESTIONS, 0))
        group.create_task(serve(consumer, producer))
        for answer in await ask(bootstrap, [b"first", b"second", b"third"]):
            print((answer or b"").decode())
        consumer.wakeup()
    print("stopped")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
