"""The protocol by which two nodes prove to each other that they know the cluster's secret. Pure.

caller = Caller(identity, nonce)                          # at the node that connects
callee = Callee(identity, caller.hello(), nonce)          # at the other node
proof, session = caller.prove(callee.answer)
session = callee.check(proof)

Each node sends a nonce of 32 bytes, then HMAC-SHA256(secret, side, version, cluster, caller, callee, both nonces). The
secret itself is never sent, a proof is valid only for these two nonces, and the proof of one side is not valid for the
other. Later streams on the same connection carry a ticket, which requires the secret, and is valid once.

Knowledge of the secret proves that a peer is a node of the cluster, but not which one.
"""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError

from lograft.proto.node_proof_pb2 import (
    NodeAnswer,
    NodeHello,
    NodeProofRequest,
    NodeProofResponse,
    NodeTicket,
)

VERSION = 1
NONCE_BYTES = 32
MIN_SECRET_CHARACTERS = 32
MAX_SECRETS = 8
MAX_SECRET_FILE_BYTES = 64 * 1024

_SESSION_BYTES = 16
_TICKETS_REMEMBERED = 4096
_CALLER, _CALLEE = b"lograft caller", b"lograft callee"
_SESSION_NAME, _SESSION_KEY, _TICKET = b"lograft session", b"lograft session key", b"lograft ticket"

_REMEDY = "give both nodes the same cluster_secret_file"
_NO_PROOF = f"it ended before its proof, as a node with another secret does: {_REMEDY}"


class NotProven(Exception):
    """Raised when a peer's proof is rejected. The message has the reason and the remedy."""


class SecretsRefused(ValueError):
    """Raised for an invalid file of secrets, with the reason."""


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """The proving node. `secrets`: at least one; it proves with the first, and accepts all."""

    cluster_id: str
    node_id: int
    secrets: tuple[bytes, ...] = field(repr=False)


def read_secrets(text: str) -> tuple[bytes, ...]:
    """Return the secrets in a file, one a line, without empty lines and comments, which begin with `#`. Raise
    `SecretsRefused` if they are invalid."""
    lines = [line.strip() for line in text.splitlines()]
    secrets = [line for line in lines if line and not line.startswith("#")]
    if not 0 < len(secrets) <= MAX_SECRETS:
        raise SecretsRefused(f"it has {len(secrets)} secrets: give 1 to {MAX_SECRETS}, one a line")
    shortest = min(map(len, secrets))
    if shortest < MIN_SECRET_CHARACTERS:
        raise SecretsRefused(
            f"it has a secret of {shortest} characters, which can be guessed: give at least {MIN_SECRET_CHARACTERS} "
            "random ones, such as `openssl rand -hex 32` prints"
        )
    return tuple(secret.encode() for secret in secrets)


class Session:
    """A connection after both ends have proved themselves. `key`: known only to them."""

    def __init__(self, peer_id: int, key: bytes) -> None:
        self.peer_id = peer_id
        self.name = _mac(key, _SESSION_NAME)[:_SESSION_BYTES]
        self._key = key
        self._last_number = 0
        self._taken: dict[int, None] = {}

    def ticket(self, method: str) -> bytes:
        """Return a new ticket for one stream of that method."""
        self._last_number += 1
        number = self._last_number
        return NodeTicket(session=self.name, number=number, proof=self._proof(method, number)).SerializeToString()

    def take(self, ticket: NodeTicket, method: str) -> None:
        """Accept a ticket. Raise `NotProven` unless it was made for this session and method, and is used for the first
        time. Tickets may arrive out of order."""
        if not hmac.compare_digest(ticket.proof, self._proof(method, ticket.number)):
            raise NotProven("its ticket is forged")
        oldest = self._last_number - _TICKETS_REMEMBERED
        if ticket.number <= oldest or ticket.number in self._taken:
            raise NotProven("its ticket was used already")
        self._taken[ticket.number] = None
        self._last_number = max(self._last_number, ticket.number)
        if len(self._taken) > 2 * _TICKETS_REMEMBERED:
            oldest = self._last_number - _TICKETS_REMEMBERED
            self._taken = dict.fromkeys(number for number in self._taken if number > oldest)

    def _proof(self, method: str, number: int) -> bytes:
        return _mac(self._key, _TICKET, method.encode(), _number(number))


def read_ticket(data: bytes | None) -> NodeTicket:
    """Return the ticket in the first message of a stream between nodes. Raise `NotProven` if there is none."""
    try:
        ticket = NodeTicket.FromString(data or b"")
    except DecodeError:
        raise NotProven(f"its stream begins without a ticket: {_REMEDY}") from None
    if len(ticket.session) != _SESSION_BYTES or not ticket.proof:
        raise NotProven(f"its stream begins without a ticket: {_REMEDY}")
    return ticket


class Caller:
    """The side that connects."""

    def __init__(self, identity: NodeIdentity, nonce: bytes) -> None:
        assert len(nonce) == NONCE_BYTES
        self._identity = identity
        self._nonce = nonce

    def hello(self) -> bytes:
        one = self._identity
        hello = NodeHello(version=VERSION, cluster_id=one.cluster_id, node_id=one.node_id, nonce=self._nonce)
        return NodeProofRequest(hello=hello).SerializeToString()

    def prove(self, data: bytes | None) -> tuple[bytes, Session]:
        """Return the proof to send after the answer `data`, and the session, which is valid once the callee accepts the
        proof. Raise `NotProven` if the callee does not know the secret."""
        answer = _answer_in(data)
        exchanged = _Exchanged(
            self._identity.cluster_id, self._identity.node_id, answer.node_id, self._nonce, answer.nonce
        )
        secret = exchanged.find_secret(self._identity.secrets, _CALLEE, answer.proof)
        if secret is None:
            raise NotProven(
                f"node {answer.node_id} there does not know the secret of cluster {self._identity.cluster_id!r}: "
                f"{_REMEDY}"
            )
        own = self._identity.secrets[0]
        proof = NodeProofRequest(proof=exchanged.proof(own, _CALLER)).SerializeToString()
        return proof, Session(answer.node_id, exchanged.session_key(own, secret))


class Callee:
    """The side that is called. `answer`: its answer to the hello in `data`."""

    def __init__(self, identity: NodeIdentity, data: bytes | None, nonce: bytes) -> None:
        assert len(nonce) == NONCE_BYTES
        hello = _hello_in(data)
        if hello.version != VERSION:
            raise NotProven(f"it proves by version {hello.version}, this node by {VERSION}: run the same lograft")
        if hello.cluster_id != identity.cluster_id:
            raise NotProven(
                f"node {hello.node_id} is of cluster {hello.cluster_id!r}, this node of {identity.cluster_id!r}: "
                "check cluster_id and the addresses"
            )
        self.caller_id = hello.node_id
        self._identity = identity
        self._exchanged = _Exchanged(identity.cluster_id, hello.node_id, identity.node_id, hello.nonce, nonce)
        proof = self._exchanged.proof(identity.secrets[0], _CALLEE)
        answer = NodeAnswer(node_id=identity.node_id, nonce=nonce, proof=proof)
        self.answer = NodeProofResponse(answer=answer).SerializeToString()

    def check(self, data: bytes | None) -> Session:
        """Return the session. Raise `NotProven` if the caller does not know the secret."""
        secret = self._exchanged.find_secret(self._identity.secrets, _CALLER, _proof_in(data))
        if secret is None:
            raise NotProven(
                f"node {self.caller_id} does not know the secret of cluster {self._identity.cluster_id!r}: {_REMEDY}"
            )
        return Session(self.caller_id, self._exchanged.session_key(secret, self._identity.secrets[0]))


@dataclass(frozen=True, slots=True)
class _Exchanged:
    """The data covered by a proof."""

    cluster_id: str
    caller_id: int
    callee_id: int
    caller_nonce: bytes
    callee_nonce: bytes

    def proof(self, secret: bytes, side: bytes) -> bytes:
        return _mac(
            secret, side, _number(VERSION), self.cluster_id.encode(), _number(self.caller_id), _number(self.callee_id),
            self.caller_nonce, self.callee_nonce,
        )  # fmt: skip

    def find_secret(self, secrets: Sequence[bytes], side: bytes, proof: bytes) -> bytes | None:
        """Return the secret with which the proof was made, or None. The time does not depend on which one it is."""
        matches = [secret for secret in secrets if hmac.compare_digest(proof, self.proof(secret, side))]
        return matches[0] if matches else None

    def session_key(self, callers: bytes, callees: bytes) -> bytes:
        """Return the key derived from the secrets that both sides proved with. Both sides know both secrets."""
        return _mac(self.proof(callers, _SESSION_KEY), self.proof(callees, _SESSION_KEY))


def _mac(key: bytes, *fields: bytes) -> bytes:
    """Return the HMAC of the fields. Prefix each with its length, so that different lists have different bytes."""
    content = b"".join(len(one).to_bytes(4, "big") + one for one in fields)
    return hmac.digest(key, content, hashlib.sha256)


def _number(value: int) -> bytes:
    return value.to_bytes(8, "big")


# -- reading


def _hello_in(data: bytes | None) -> NodeHello:
    message = _request(data)
    if not message.HasField("hello") or len(message.hello.nonce) != NONCE_BYTES:
        raise NotProven("it said no hello, or half of one")
    return message.hello


def _proof_in(data: bytes | None) -> bytes:
    proof = _request(data).proof
    if not proof:
        raise NotProven(_NO_PROOF)
    return proof


def _request(data: bytes | None) -> NodeProofRequest:
    if data is None:
        raise NotProven(_NO_PROOF)
    try:
        return NodeProofRequest.FromString(data)
    except DecodeError:
        raise NotProven("it sent what is no proof") from None


def _answer_in(data: bytes | None) -> NodeAnswer:
    try:
        message = NodeProofResponse.FromString(data or b"")
    except DecodeError:
        raise NotProven("the answer is no proof") from None
    if not message.HasField("answer") or len(message.answer.nonce) != NONCE_BYTES:
        raise NotProven("the answer has no proof, or half of one")
    return message.answer
