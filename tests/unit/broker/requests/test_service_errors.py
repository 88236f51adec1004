"""What clients are told of each error."""

import inspect

import pytest
from support.metadata_images import broker, image_with

from lograft.broker.requests.service_errors import SERVICE_ERRORS, NotReadable, detail_of, stream_error_of
from lograft.proto import errors_pb2
from lograft.proto.errors import ERRORS
from lograft.proto.errors_pb2 import ErrorDetail
from lograft.rpc.coded_error import ControllerError, ReplicaError
from lograft.runtime.disk.disk_writer import DiskFailed
from lograft.runtime.network import Status
from lograft.storage import errors as storage

IMAGE = image_with(broker(1), broker(2))

STORAGE = [each for each in vars(storage).values() if inspect.isclass(each) and issubclass(each, storage.StorageError)]
ARGUMENTS = {storage.OffsetOutOfRange: (5, 1, 3), storage.LogTruncated: (5,), storage.CorruptLog: ("path", 5, "torn")}


@pytest.mark.parametrize("kind", STORAGE)
def test_every_error_of_storage_has_a_code(kind: type[storage.StorageError]) -> None:
    error = kind(*ARGUMENTS.get(kind, ("why",)))
    assert isinstance(error, SERVICE_ERRORS)
    detail = detail_of(error, IMAGE)
    assert detail.code not in (errors_pb2.NONE, errors_pb2.INTERNAL)
    assert detail.retriable is ERRORS[detail.code].retriable
    assert detail.message == str(error)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (storage.BadCrc("x"), errors_pb2.CORRUPT_BATCH),
        (storage.BadAttributes("x"), errors_pb2.INVALID_RECORD),
        (storage.UnknownMagic("x"), errors_pb2.UNSUPPORTED_FORMAT),
        (storage.BatchTooLarge("x"), errors_pb2.BATCH_TOO_LARGE),
        (storage.InvalidProducerEpoch("x"), errors_pb2.INVALID_PRODUCER_EPOCH),
        (storage.UnknownProducer("x"), errors_pb2.UNKNOWN_PRODUCER_ID),
        (storage.OutOfOrderSequence("x"), errors_pb2.OUT_OF_ORDER_SEQUENCE),
        (storage.InvalidTimestamp("x"), errors_pb2.INVALID_TIMESTAMP),
        (storage.InvalidRecord("x"), errors_pb2.INVALID_RECORD),
        (storage.UnknownCompression("x"), errors_pb2.UNSUPPORTED_FORMAT),
        (storage.OffsetOutOfRange(5, 1, 3), errors_pb2.OFFSET_OUT_OF_RANGE),
        (storage.LogTruncated(5), errors_pb2.NOT_LEADER),
        (storage.LogClosed("x"), errors_pb2.NOT_LEADER),
        (storage.CorruptLog("path", None, "torn"), errors_pb2.STORAGE_FAILED),
        (DiskFailed("path", OSError("gone")), errors_pb2.STORAGE_FAILED),
        (ControllerError(errors_pb2.INVALID_REQUEST, "x"), errors_pb2.INVALID_REQUEST),
    ],
)
def test_causes_are_told_apart(error: Exception, code: int) -> None:
    assert detail_of(error, IMAGE).code == code


def test_the_leader_is_told_with_its_address_if_that_is_known() -> None:
    known = detail_of(ReplicaError(errors_pb2.NOT_LEADER, "x", leader_id=2, leader_epoch=7), IMAGE)
    assert (known.leader_id, known.leader_address, known.leader_epoch) == (2, "broker-2:9092", 7)
    unknown = detail_of(ReplicaError(errors_pb2.NOT_LEADER, "x", leader_id=9), IMAGE)
    assert (unknown.leader_id, unknown.HasField("leader_address"), unknown.HasField("leader_epoch")) == (
        9,
        False,
        False,
    )
    assert not detail_of(ReplicaError(errors_pb2.NOT_LEADER, "x"), IMAGE).HasField("leader_id")


def test_the_valid_range_is_told_as_far_as_it_is_known() -> None:
    detail = detail_of(NotReadable(9, 1, 3), IMAGE)
    assert (detail.code, detail.valid_start, detail.valid_end) == (errors_pb2.OFFSET_OUT_OF_RANGE, 1, 3)
    assert not detail_of(NotReadable(9, 1, None), IMAGE).HasField("valid_end")


def test_a_call_fails_with_the_status_of_its_code_and_the_detail() -> None:
    detail = detail_of(NotReadable(9, 1, 3), IMAGE)
    error = stream_error_of(detail)
    assert (error.status, ErrorDetail.FromString(error.detail)) == (Status.OUT_OF_RANGE, detail)


def test_a_long_message_is_cut_between_characters() -> None:
    detail = detail_of(ReplicaError(errors_pb2.INVALID_REQUEST, "ä" * 5000), IMAGE)
    assert 1000 < len(detail.message.encode()) <= 1024
    assert set(detail.message) == {"ä"}
