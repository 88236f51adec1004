"""What two nodes prove to each other, and what is no proof."""

import hashlib
import hmac
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lograft.proto.node_proof_pb2 import NodeProofRequest, NodeProofResponse
from lograft.runtime.proof.node_proof import (
    Callee,
    Caller,
    NodeIdentity,
    NotProven,
    SecretsRefused,
    Session,
    read_secrets,
    read_ticket,
)

SECRET, OTHER, NEWER = b"a" * 32, b"b" * 32, b"c" * 32
ONE = NodeIdentity("cluster", 1, (SECRET,))
TWO = NodeIdentity("cluster", 2, (SECRET,))
ONES_NONCE, TWOS_NONCE = bytes(range(32)), bytes(range(32, 64))
METHOD = "/lograft.internal.v1.Replication/Replicate"


def talk(one: NodeIdentity, two: NodeIdentity) -> tuple[Session, Session]:
    caller = Caller(one, ONES_NONCE)
    callee = Callee(two, caller.hello(), TWOS_NONCE)
    proof, session = caller.prove(callee.answer)
    return session, callee.check(proof)


def test_nodes_with_the_same_secret_believe_each_other() -> None:
    callers, callees = talk(ONE, TWO)
    assert (callers.peer_id, callees.peer_id) == (2, 1)
    callees.take(read_ticket(callers.ticket(METHOD)), METHOD)


def test_a_proof_is_an_hmac_of_all_that_it_is_about() -> None:
    """Word for word, as another implementation would compute it."""
    callee = Callee(TWO, Caller(ONE, ONES_NONCE).hello(), TWOS_NONCE)
    fields = [
        b"lograft callee", (1).to_bytes(8, "big"), b"cluster", (1).to_bytes(8, "big"), (2).to_bytes(8, "big"),
        ONES_NONCE, TWOS_NONCE,
    ]  # fmt: skip
    content = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
    answer = NodeProofResponse.FromString(callee.answer).answer
    assert answer.proof == hmac.new(SECRET, content, hashlib.sha256).digest()
    assert SECRET not in callee.answer


@pytest.mark.parametrize(
    ("ones", "twos", "is_well"),
    [
        ((SECRET,), (SECRET, NEWER), True),  # a new one is accepted first,
        ((NEWER, SECRET), (SECRET, NEWER), True),  # then it proves,
        ((NEWER,), (NEWER, SECRET), True),  # then the old one goes
        ((SECRET,), (NEWER, SECRET), False),  # but none proves with what the other does not accept
        ((SECRET,), (OTHER,), False),
    ],
)
def test_secrets_are_changed_one_node_after_the_other(
    ones: tuple[bytes, ...], twos: tuple[bytes, ...], is_well: bool
) -> None:
    for one, two in ((ones, twos), (twos, ones)):
        identities = replace(ONE, secrets=one), replace(TWO, secrets=two)
        if is_well:
            callers, callees = talk(*identities)
            callees.take(read_ticket(callers.ticket(METHOD)), METHOD)
        else:
            with pytest.raises(
                NotProven, match="does not know the secret of cluster 'cluster': give both nodes the same"
            ):
                talk(*identities)


def test_a_node_of_another_cluster_or_version_is_not_believed() -> None:
    with pytest.raises(NotProven, match="node 1 is of cluster 'another', this node of 'cluster': check cluster_id"):
        talk(replace(ONE, cluster_id="another"), TWO)
    hello = NodeProofRequest.FromString(Caller(ONE, ONES_NONCE).hello())
    hello.hello.version = 2
    with pytest.raises(NotProven, match="version 2, this node by 1"):
        Callee(TWO, hello.SerializeToString(), TWOS_NONCE)


def test_an_earlier_proof_is_none_for_another_conversation() -> None:
    caller = Caller(ONE, ONES_NONCE)
    hello = caller.hello()
    proof, _ = caller.prove(Callee(TWO, hello, TWOS_NONCE).answer)
    again = Callee(TWO, hello, bytes(32))
    with pytest.raises(NotProven, match="node 1 does not know the secret"):
        again.check(proof)
    with pytest.raises(NotProven, match="node 2 there does not know the secret"):
        Caller(ONE, bytes(32)).prove(Callee(TWO, hello, TWOS_NONCE).answer)


def test_what_one_side_proves_is_no_proof_of_the_other() -> None:
    """A stranger that answers a challenge with what it was answered itself."""
    caller = Caller(ONE, ONES_NONCE)
    callee = Callee(TWO, caller.hello(), TWOS_NONCE)
    answer = NodeProofResponse.FromString(callee.answer).answer
    with pytest.raises(NotProven):
        callee.check(NodeProofRequest(proof=answer.proof).SerializeToString())


@pytest.mark.parametrize("claimed", ["cluster_id", "node_id"])
def test_a_proof_is_of_who_says_it(claimed: str) -> None:
    """Another name over the same proof."""
    caller = Caller(ONE, ONES_NONCE)
    proof, _ = caller.prove(Callee(TWO, caller.hello(), TWOS_NONCE).answer)
    claims = replace(ONE, **{claimed: {"cluster_id": "other", "node_id": 3}[claimed]})  # type: ignore[arg-type]
    target = replace(TWO, cluster_id=claims.cluster_id)
    with pytest.raises(NotProven):
        Callee(target, Caller(claims, ONES_NONCE).hello(), TWOS_NONCE).check(proof)


@given(st.binary(max_size=200), st.integers(0, 2))
def test_rubbish_is_no_proof_and_breaks_nothing(data: bytes, step: int) -> None:
    caller = Caller(ONE, ONES_NONCE)
    steps = [
        lambda: Callee(TWO, data, TWOS_NONCE),
        lambda: caller.prove(data),
        lambda: Callee(TWO, caller.hello(), TWOS_NONCE).check(data),
    ]
    with pytest.raises(NotProven):
        steps[step]()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("count", [0, 1, 10, 40])
def test_half_a_message_is_no_proof(count: int) -> None:
    caller = Caller(ONE, ONES_NONCE)
    with pytest.raises(NotProven):
        Callee(TWO, caller.hello()[:count], TWOS_NONCE)
    callee = Callee(TWO, caller.hello(), TWOS_NONCE)
    with pytest.raises(NotProven):
        caller.prove(callee.answer[:count])
    proof, _ = caller.prove(callee.answer)
    with pytest.raises(NotProven):
        callee.check(proof[: min(count, len(proof) - 1)])


@pytest.mark.parametrize("ended", [None, b""])
def test_who_ends_early_has_proved_nothing(ended: bytes | None) -> None:
    caller = Caller(ONE, ONES_NONCE)
    with pytest.raises(NotProven):
        Callee(TWO, ended, TWOS_NONCE)
    with pytest.raises(NotProven):
        caller.prove(ended)
    with pytest.raises(NotProven):
        Callee(TWO, caller.hello(), TWOS_NONCE).check(ended)
    with pytest.raises(NotProven):
        read_ticket(ended)


# -- tickets


def test_a_ticket_is_for_one_stream_of_one_method() -> None:
    callers, callees = talk(ONE, TWO)
    ticket = read_ticket(callers.ticket(METHOD))
    with pytest.raises(NotProven, match="forged"):
        callees.take(ticket, METHOD + "X")
    callees.take(ticket, METHOD)
    with pytest.raises(NotProven, match="used already"):
        callees.take(ticket, METHOD)
    ticket.number += 1
    with pytest.raises(NotProven, match="forged"):
        callees.take(ticket, METHOD)


def test_tickets_may_come_out_of_order_and_are_remembered_for_long_enough() -> None:
    callers, callees = talk(ONE, TWO)
    first, *others = [read_ticket(callers.ticket(METHOD)) for _ in range(10_001)]
    for early, late in zip(others[::2], others[1::2], strict=False):
        callees.take(late, METHOD)
        callees.take(early, METHOD)
    for old in (first, others[0], others[5000], others[-1]):
        with pytest.raises(NotProven, match="used already"):
            callees.take(old, METHOD)


def test_a_ticket_of_another_session_is_forged() -> None:
    callers, _ = talk(ONE, TWO)
    _, others = talk(replace(ONE, node_id=3), TWO)
    with pytest.raises(NotProven, match="forged"):
        others.take(read_ticket(callers.ticket(METHOD)), METHOD)


# -- the file


def test_a_file_has_a_secret_a_line() -> None:
    text = f"# since March\n{'x' * 64}\n\n  {'y' * 32}  \n"
    assert read_secrets(text) == (b"x" * 64, b"y" * 32)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it has 0 secrets: give 1 to 8, one a line"),
        ("# nothing\n\n", "it has 0 secrets"),
        ("\n".join(["z" * 32] * 9), "it has 9 secrets"),
        (
            f"{'x' * 64}\nhunter2\n",
            "it has a secret of 7 characters, which can be guessed: give at least 32 random ones",
        ),
    ],
)
def test_what_is_no_secret_is_refused_and_not_shown(text: str, message: str) -> None:
    with pytest.raises(SecretsRefused, match=message) as refused:
        read_secrets(text)
    assert "hunter2" not in str(refused.value)


def test_secrets_are_not_shown() -> None:
    assert "aaa" not in repr(ONE)
