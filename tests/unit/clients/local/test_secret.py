"""The secret of a local cluster: made once, for its owner's eyes alone, as a node takes it."""

import stat
from pathlib import Path

from lograft.clients.local.secret import make_secret
from lograft.runtime.proof.node_proof import read_secrets


def test_a_secret_is_made_once_and_is_its_owners(tmp_path: Path) -> None:
    path = make_secret(tmp_path)
    assert path == tmp_path / "cluster.secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text()
    assert len(read_secrets(text)[0]) == 64
    assert make_secret(tmp_path) == path
    assert path.read_text() == text
    assert [one.name for one in tmp_path.iterdir()] == ["cluster.secret"]


def test_each_cluster_has_its_own(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    assert make_secret(tmp_path / "one").read_text() != make_secret(tmp_path / "other").read_text()
