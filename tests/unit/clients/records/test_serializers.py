import json
from typing import Any

import pytest

from lograft.clients.errors import DeserializationError, InvalidArgument, SerializationError
from lograft.clients.records.serializers import deserialize, find_deserializer, find_serializer, serialize


@pytest.mark.parametrize(
    ("option", "value", "data"),
    [
        (None, b"\xff", b"\xff"),
        ("bytes", b"\xff", b"\xff"),
        ("string", "größe", "größe".encode()),
        ("json", {"größe": [1, None, "x"]}, '{"größe":[1,null,"x"]}'.encode()),
    ],
)
def test_there_and_back(option: str | None, value: Any, data: bytes) -> None:
    serialized = serialize(find_serializer("value_serializer", option), "orders", "value", value)  # type: ignore[arg-type]
    assert serialized == data
    assert deserialize(find_deserializer("value_deserializer", option), "orders", "value", data, 0, 0) == value  # type: ignore[arg-type]


def test_a_function_is_told_the_topic() -> None:
    serializer = find_serializer("key_serializer", lambda topic, value: f"{topic}:{value}".encode())
    assert serialize(serializer, "orders", "key", 7) == b"orders:7"
    deserializer = find_deserializer("key_deserializer", lambda topic, data: (topic, int(data)))
    assert deserialize(deserializer, "orders", "key", b"7", 0, 0) == ("orders", 7)


@pytest.mark.parametrize("option", ["string", "json", lambda _topic, _value: pytest.fail("was called")])
def test_nothing_stays_nothing(option: Any) -> None:
    assert serialize(find_serializer("value_serializer", option), "orders", "value", None) is None
    assert deserialize(find_deserializer("value_deserializer", option), "orders", "value", None, 0, 0) is None


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("string", b"bytes", "it is of type bytes: give a string"),
        ("string", "\ud800", "UnicodeEncodeError"),
        ("json", float("nan"), "ValueError"),
        ("json", object(), "not JSON serializable"),
        (lambda _topic, value: str(value), 1, "the serializer gave str, not bytes"),
    ],
)
def test_what_cannot_be_written_names_the_topic_and_the_part(option: Any, value: Any, reason: str) -> None:
    with pytest.raises(SerializationError, match="the value of a record for topic 'orders': ") as caught:
        serialize(find_serializer("value_serializer", option), "orders", "value", value)
    assert reason in str(caught.value)
    assert (caught.value.part, caught.value.outcome_unknown) == ("value", False)


def test_what_cannot_be_read_names_the_record() -> None:
    with pytest.raises(DeserializationError, match="the key of the record at offset 42 of orders-3: ") as caught:
        deserialize(find_deserializer("key_deserializer", "json"), "orders", "key", b"{", 3, 42)
    error = caught.value
    assert (error.topic, error.partition, error.offset, error.part) == ("orders", 3, 42, "key")
    assert isinstance(error.__cause__, json.JSONDecodeError)


@pytest.mark.parametrize("given", ["avro", 5, b"string"])
def test_an_unknown_one_is_refused_with_those_there_are(given: Any) -> None:
    expected = "key_serializer is .*: give 'bytes', 'string', 'json', a function, or None"
    with pytest.raises(InvalidArgument, match=expected):
        find_serializer("key_serializer", given)
    with pytest.raises(InvalidArgument, match="'bytes', 'string', 'json'"):
        find_deserializer("key_deserializer", given)
