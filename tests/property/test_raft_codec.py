"""Whatever nodes say and keep comes back from its bytes as it was; other bytes are a `CodecError`, and nothing else."""

import contextlib
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lograft.proto import raft_pb2 as pb
from lograft.raft.core import messages
from lograft.raft.core.configuration import Configuration, Member, configuration
from lograft.raft.core.entries import Command, Entry, HardState, NewConfiguration, NoOperation, SnapshotMetadata
from lograft.raft.core.messages import AppendRequest, Envelope, InstallSnapshot, Message, ReadIndexResponse, TimeoutNow
from lograft.raft.interfaces import StoreIdentity
from lograft.raft.store import state_codec
from lograft.raft.transport.envelope_codec import (  # type: ignore[attr-defined]
    CodecError,
    SnapshotChunk,
    decode_chunk,
    decode_envelopes,
    encode_chunk,
    encode_envelopes,
)

NUMBERS = st.integers(0, 2**64 - 1)
few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
MEMBERS = st.builds(Member, st.integers(0, 2**32 - 1), st.uuids())


@st.composite
def configurations(draw: st.DrawFn) -> Configuration:
    members = draw(st.lists(MEMBERS, max_size=6, unique=True))
    voters = draw(st.integers(0, len(members)))
    return configuration(members[:voters], members[voters:])


PAYLOADS = st.one_of(
    st.builds(Command, st.binary(max_size=300)), st.just(NoOperation()), st.builds(NewConfiguration, configurations())
)
ENTRIES = st.builds(Entry, NUMBERS, NUMBERS, PAYLOADS)
METADATA = st.builds(SnapshotMetadata, NUMBERS, NUMBERS, configurations())


@st.composite
def append_requests(draw: st.DrawFn) -> AppendRequest:
    previous_index = draw(st.integers(0, 2**63))
    payloads = draw(st.lists(PAYLOADS, max_size=4))
    entries = [Entry(index, draw(NUMBERS), payload) for index, payload in enumerate(payloads, previous_index + 1)]
    return AppendRequest(draw(MEMBERS), draw(NUMBERS), previous_index, draw(NUMBERS), tuple(entries), draw(NUMBERS))


def any_of(kind: type) -> st.SearchStrategy[Any]:
    """Messages of a class, each field by its annotation."""
    strategies = {"Member": MEMBERS, "int": NUMBERS, "bool": st.booleans(), "int | None": st.none() | NUMBERS}
    names = {
        name: getattr(annotation, "__name__", str(annotation)) for name, annotation in kind.__annotations__.items()
    }
    return st.builds(kind, **{name: strategies[annotation] for name, annotation in names.items()})


KINDS: list[type] = [kind for kind in messages.Message.__args__ if kind is not InstallSnapshot]
MESSAGES: dict[type, st.SearchStrategy[Message]] = {
    kind: append_requests() if kind is AppendRequest else any_of(kind) for kind in KINDS
}
ENVELOPES = st.builds(Envelope, MEMBERS, st.one_of(*MESSAGES.values()))


@st.composite
def chunks(draw: st.DrawFn) -> SnapshotChunk:
    data = draw(st.binary(max_size=100))
    offset = draw(st.integers(0, 2**60))
    rest = draw(st.integers(0, 1000))
    total = offset + len(data) + rest
    crc = draw(st.integers(0, 2**32 - 1))
    return SnapshotChunk(
        draw(MEMBERS), draw(MEMBERS), draw(NUMBERS), draw(METADATA), offset, data, not rest, total, crc
    )


# -- there and back


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@few
@given(data=st.data())
def test_every_message_survives_the_wire(kind: type, data: st.DataObject) -> None:
    envelope = Envelope(data.draw(MEMBERS), data.draw(MESSAGES[kind]))
    assert decode_envelopes(encode_envelopes([envelope])) == [envelope]


@few
@given(st.lists(ENVELOPES, max_size=8))
def test_envelopes_that_travel_together_arrive_together_in_order(envelopes: list[Envelope]) -> None:
    assert decode_envelopes(encode_envelopes(envelopes)) == envelopes


@few
@given(chunks())
def test_a_snapshots_chunk_survives_the_wire(chunk: SnapshotChunk) -> None:
    assert decode_chunk(encode_chunk(chunk)) == chunk


def test_a_whole_snapshot_is_no_message() -> None:
    member = Member(1, UUID(int=1))
    message = InstallSnapshot(member, 1, SnapshotMetadata(1, 1, configuration([member])), b"")
    with pytest.raises(AssertionError, match="chunks"):
        encode_envelopes([Envelope(member, message)])


HARD_STATES = st.builds(HardState, NUMBERS, st.none() | MEMBERS, NUMBERS)
IDENTITIES = st.builds(
    StoreIdentity,
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.integers(0, 2**32 - 1),
    st.uuids(),
)
STORED: dict[str, st.SearchStrategy[Any]] = {
    "entry": ENTRIES,
    "hard_state": HARD_STATES,
    "identity": IDENTITIES,
}


@pytest.mark.parametrize("kind", STORED)
@few
@given(data=st.data())
def test_what_a_store_keeps_comes_back(kind: str, data: st.DataObject) -> None:
    encode, decode = getattr(state_codec, f"encode_{kind}"), getattr(state_codec, f"decode_{kind}")
    value = data.draw(STORED[kind])
    assert decode(encode(value)) == value


# -- for ever: other versions read these bytes


def test_the_bytes_on_the_wire_are_what_they_were() -> None:
    one, two = Member(1, UUID(int=1)), Member(2, UUID(int=2))
    entries = (Entry(8, 5, Command(b"set")), Entry(9, 5, NoOperation()))
    head = "0a140802121000000000000000000000000000000002121408011210000000000000000000000000000000011805"
    for message, expected in [
        (AppendRequest(one, 5, 7, 4, entries, 6), "7219080710041a090808100522037365741a06080910051a002006"),
        (ReadIndexResponse(one, 5, 3, None), "aa01020803"),
        (TimeoutNow(one, 5), "9a0100"),
    ]:
        encoded = encode_envelopes([Envelope(two, message)])  # type: ignore[arg-type]
        assert encoded[0] == 0x0A
        assert encoded[1] == len(encoded) - 2
        assert encoded[2:].hex() == head + expected


# -- what is not so


DECODERS: list[tuple[str, Callable[[bytes], object], st.SearchStrategy[bytes]]] = [
    ("envelopes", decode_envelopes, st.lists(ENVELOPES, min_size=1, max_size=3).map(encode_envelopes)),
    ("chunk", decode_chunk, chunks().map(encode_chunk)),
    *(
        (kind, getattr(state_codec, f"decode_{kind}"), strategy.map(getattr(state_codec, f"encode_{kind}")))
        for kind, strategy in STORED.items()
    ),
]
DECODER_CASES = pytest.mark.parametrize(
    ("decode", "sound"), [row[1:] for row in DECODERS], ids=[row[0] for row in DECODERS]
)


@DECODER_CASES
@few
@given(data=st.data())
def test_damaged_bytes_decode_or_are_a_codec_error(
    decode: Callable[[bytes], object], sound: st.SearchStrategy[bytes], data: st.DataObject
) -> None:
    encoded = bytearray(data.draw(sound))
    for place in data.draw(st.lists(st.integers(0, max(len(encoded) - 1, 0)), min_size=1, max_size=4)):
        if encoded:
            encoded[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(encoded)))
    for damaged in (bytes(encoded), bytes(encoded[:cut])):
        with contextlib.suppress(CodecError):
            decode(damaged)


@DECODER_CASES
@few
@given(garbage=st.binary(max_size=200))
def test_garbage_decodes_or_is_a_codec_error(
    decode: Callable[[bytes], object], sound: st.SearchStrategy[bytes], garbage: bytes
) -> None:
    with contextlib.suppress(CodecError):
        decode(garbage)


MEMBER = pb.Member(node_id=1, directory_id=bytes(16))
OTHER = pb.Member(node_id=2, directory_id=bytes(16))


def envelope(**fields: Any) -> bytes:
    return pb.Envelopes(
        envelopes=[pb.Envelope(**{"recipient": MEMBER, "sender": MEMBER, **fields})]
    ).SerializeToString()


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"\xff\xff", "not a Envelopes"),
        (envelope(), "no message, or one unknown to this version"),
        (envelope(timeout_now={}, sender=None), "directory id has 0 bytes"),
        (envelope(timeout_now={}, recipient=pb.Member(node_id=1, directory_id=b"short")), "directory id has 5 bytes"),
        (envelope(append_request={"entries": [{"index": 1}]}), "payload that this version does not know"),
        (envelope(append_request={"entries": [{"index": 2, "command": b""}]}), "entry 2 where 1 should be"),
    ],
)
def test_an_envelope_that_makes_no_sense_is_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(CodecError, match=complaint):
        decode_envelopes(data)


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (pb.Configuration(voters=[OTHER, MEMBER]), "not in order"),
        (pb.Configuration(learners=[OTHER, MEMBER]), "not in order"),
        (pb.Configuration(voters=[MEMBER, MEMBER]), "twice"),
        (pb.Configuration(voters=[MEMBER], learners=[MEMBER]), "twice"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(message: pb.Configuration, complaint: str) -> None:
    with pytest.raises(CodecError, match=complaint):
        state_codec.read_configuration(message)


@pytest.mark.parametrize(
    "fields",
    [
        {"offset": 8, "data": b"abc", "total_bytes": 10, "is_last": True},
        {"offset": 0, "data": b"abc", "total_bytes": 3, "is_last": False},
        {"offset": 0, "data": b"abc", "total_bytes": 4, "is_last": True},
        {"offset": 0, "data": b"abc", "total_bytes": 3, "is_last": True, "metadata": None},
    ],
    ids=["beyond the end", "the last, but not called so", "called the last, but not so", "no metadata"],
)
def test_a_chunk_that_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    whole = {"recipient": MEMBER, "sender": MEMBER, "metadata": {"configuration": {}}, **fields}
    with pytest.raises(CodecError):
        decode_chunk(pb.SnapshotChunk(**whole).SerializeToString())
    sound = {**whole, "data": b"abc", "offset": 0, "total_bytes": 3, "is_last": True, "metadata": {"configuration": {}}}
    decode_chunk(pb.SnapshotChunk(**sound).SerializeToString())
