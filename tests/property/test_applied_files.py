"""Files of all sorts, applied to clusters of all sorts: what was exported changes nothing, nor does anything twice."""

import asyncio
import json
import os
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.deciding_admin import DecidingAdmin
from support.metadata_images import brokers, image_with

from lograft.cli.common.cluster_options import Settings
from lograft.cli.declarative.apply_run import Refused, carry_out, prepare
from lograft.cli.declarative.export import export_of
from lograft.cli.declarative.manifest_parser import read_manifests
from lograft.cli.resources.cluster_resources import topic_resource
from lograft.cli.resources.config_resources import entry_resource, parse_owner
from lograft.cli.resources.manifest_writer import yaml_documents
from lograft.clients.admin.model.types import TopicDescription

EXAMPLES = int(os.environ.get("LOGRAFT_EXAMPLES", "50"))
SETTINGS = Settings("nowhere:1", 1000)

# Each in spellings that are stored as one, and some that no cluster takes.
VALUES = {
    "retention.ms": ["-1", "5000", " 05000", "soon"],
    "cleanup.policy": ["delete", "Delete,COMPACT", "compact, delete"],
    "min.cleanable.dirty.ratio": ["0.5", ".50", "5e-1", "1"],
    "compression.type": ["none", "uncompressed", "ZSTD"],
    "unclean.leader.election.enable": ["true", "FALSE"],
    "min.insync.replicas": ["1", "2", "03"],
    "flush.ms": ["9223372036854775807", "7"],
}

configs = st.dictionaries(st.sampled_from(sorted(VALUES)), st.integers(0, 3)).map(
    lambda chosen: {key: VALUES[key][at % len(VALUES[key])] for key, at in chosen.items()}
)


@st.composite
def files(draw: st.DrawFn) -> str:
    """Resources of some topics, and of a setting of the cluster."""
    resources: list[dict[str, Any]] = []
    for name in draw(st.lists(st.sampled_from("abcd"), unique=True, max_size=4)):
        counts = {"partitions": st.integers(1, 5), "replicas": st.integers(1, 4), "config": configs}
        spec = {field: draw(value) for field, value in counts.items() if draw(st.booleans())}
        resources.append({"kind": "Topic", "metadata": {"name": name}, "spec": spec})
    if draw(st.booleans()):
        value = draw(st.sampled_from([None, "1", "03"]))
        resources.append({"kind": "Config", "metadata": {"name": "cluster/num.partitions"}, "spec": {"value": value}})
    items = [{"apiVersion": "lograft/v1", **each} for each in resources]
    return json.dumps({"apiVersion": "lograft/v1", "kind": "List", "items": items})


async def apply(admin: DecidingAdmin, text: str) -> list[str]:
    desired = read_manifests([("file", text)])
    changes = await prepare(admin, SETTINGS, desired)
    done = [(change.verdict, error) async for change, error in carry_out(admin, changes)]
    assert [error for _, error in done if error is not None] == [], "what was checked can be done"
    return [verdict for verdict, _ in done]


async def topics_of(admin: DecidingAdmin) -> Sequence[TopicDescription]:
    return (await admin.describe_cluster(include_internal=True)).topics


async def live(admin: DecidingAdmin, texts: Sequence[str]) -> None:
    """One file after the other."""
    for text in texts:
        image, changes = admin.image, admin.changes
        try:
            verdicts = await apply(admin, text)
        except Refused:
            assert (admin.image, admin.changes) == (image, changes), "what is refused changes nothing"
            continue
        assert (admin.changes > changes) == any(verdict != "unchanged" for verdict in verdicts)
        changes = admin.changes
        assert set(await apply(admin, text)) <= {"unchanged"}, "the second time there is nothing to do"
        assert admin.changes == changes
        await check_wishes(admin, text)


async def check_wishes(admin: DecidingAdmin, text: str) -> None:
    """What the file says is so."""
    topics = {topic.name: topic for topic in await topics_of(admin)}
    for item in json.loads(text)["items"]:
        if item["kind"] == "Topic":
            topic, spec = topics[item["metadata"]["name"]], item["spec"]
            assert spec.get("partitions", len(topic.partitions)) == len(topic.partitions)
            assert spec.get("replicas", topic.replication_factor) == topic.replication_factor
            assert sorted(spec.get("config", topic.config)) == sorted(topic.config)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(files(), min_size=1, max_size=4), st.integers(1, 4), st.integers(0, 99))
def test_applying_twice_changes_nothing_the_second_time(texts: list[str], count: int, seed: int) -> None:
    asyncio.run(live(DecidingAdmin(image_with(*brokers(count)), seed), texts))


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(files(), min_size=1, max_size=4), st.integers(1, 4), st.integers(0, 99))
def test_what_is_told_of_a_cluster_changes_nothing_when_it_is_applied(texts: list[str], count: int, seed: int) -> None:
    async def run() -> None:
        admin = DecidingAdmin(image_with(*brokers(count)), seed)
        await live(admin, texts)
        topics = await topics_of(admin)
        owners = [parse_owner(name) for name in ("cluster", "broker/1", *(f"topic/{topic.name}" for topic in topics))]
        entries = [
            entry_resource(owner, entry)
            for owner in owners
            for entry in await admin.describe_config(owner.kind, owner.name)
        ]
        changes = admin.changes
        for told in ([export_of(topic) for topic in topics], [topic_resource(topic) for topic in topics], entries):
            assert set(await apply(admin, yaml_documents(told))) <= {"unchanged"}
        assert admin.changes == changes

    asyncio.run(run())
