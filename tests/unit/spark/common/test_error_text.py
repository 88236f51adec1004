"""Expected errors lose the traceback in Spark's workers, and nothing else does."""

import os

import pytest

from lograft.clients.errors import InvalidArgument
from lograft.spark.common.error_text import one_sentence


@pytest.mark.parametrize(
    ("error", "secret", "is_hidden"),
    [
        (InvalidArgument("no such option"), "x", True),
        (InvalidArgument("no such option"), None, False),  # not in a worker: the process lives on
        (ZeroDivisionError("a bug"), "x", False),
    ],
)
def test_the_traceback_is_hidden_for_expected_errors_in_workers(
    monkeypatch: pytest.MonkeyPatch, error: Exception, secret: str | None, is_hidden: bool
) -> None:
    for name in ("PYTHON_WORKER_FACTORY_SECRET", "PYTHON_WORKER_FACTORY_SOCK_DIR", "PYTHON_WORKER_FACTORY_SOCK_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    if secret is not None:
        monkeypatch.setenv("PYTHON_WORKER_FACTORY_SECRET", secret)
    with pytest.raises(type(error)), one_sentence():
        raise error
    assert bool(os.environ["SPARK_HIDE_TRACEBACK"]) == is_hidden
