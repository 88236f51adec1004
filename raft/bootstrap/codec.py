"""Codec for the messages nodes exchange before the first start. Pure."""

from dataclasses import dataclass

from lograft.proto import raft_bootstrap_pb2 as pb
from lograft.proto.wire_format import CodecError
from lograft.raft.bootstrap.decision import Answer, Empty, Initialised, Joining
from lograft.raft.core.configuration import Configuration, Member
from lograft.raft.interfaces import StoreIdentity
from lograft.raft.store.state_codec import (
    fill_configuration,
    fill_member,
    parse,
    read_configuration,
    read_member,
)


@dataclass(frozen=True, slots=True)
class Offer:
    """The first voters, sent by the node that wrote them."""

    identity: StoreIdentity
    voters: Configuration


def encode_probe(identity: StoreIdentity) -> bytes:
    message = pb.BootstrapProbe(cluster_id=identity.cluster_id)
    fill_member(message.member, identity.member)
    return message.SerializeToString()


def decode_probe(data: bytes) -> StoreIdentity:
    message = parse(pb.BootstrapProbe, data)
    return _identity(message.cluster_id, read_member(message.member))


def encode_empty(identity: StoreIdentity, controllers: tuple[int, ...]) -> bytes:
    return _encode_answer(identity, pb.BootstrapAnswer(state=pb.BootstrapAnswer.EMPTY, controllers=controllers))


def encode_joining(identity: StoreIdentity) -> bytes:
    return _encode_answer(identity, pb.BootstrapAnswer(state=pb.BootstrapAnswer.JOINING))


def encode_initialised(identity: StoreIdentity, first_voters: Configuration | None) -> bytes:
    message = pb.BootstrapAnswer(state=pb.BootstrapAnswer.INITIALISED)
    if first_voters is not None:
        fill_configuration(message.first_voters, first_voters)
    return _encode_answer(identity, message)


def _encode_answer(identity: StoreIdentity, message: pb.BootstrapAnswer) -> bytes:
    message.cluster_id = identity.cluster_id
    fill_member(message.member, identity.member)
    return message.SerializeToString()


def decode_answer(data: bytes) -> tuple[Member, Answer]:
    """Return the member that answered, and its answer."""
    message = parse(pb.BootstrapAnswer, data)
    member = read_member(message.member)
    match message.state:
        case pb.BootstrapAnswer.EMPTY:
            return member, Empty(message.cluster_id, member.directory_id, tuple(message.controllers))
        case pb.BootstrapAnswer.JOINING:
            return member, Joining(message.cluster_id)
        case pb.BootstrapAnswer.INITIALISED:
            voters = read_configuration(message.first_voters) if message.HasField("first_voters") else None
            return member, Initialised(message.cluster_id, member.directory_id, voters)
        case _:
            raise CodecError(f"a state unknown to this version: {message.state}")


def encode_offer(offer: Offer) -> bytes:
    message = pb.BootstrapOffer(cluster_id=offer.identity.cluster_id)
    fill_member(message.member, offer.identity.member)
    fill_configuration(message.first_voters, offer.voters)
    return message.SerializeToString()


def decode_offer(data: bytes) -> Offer:
    message = parse(pb.BootstrapOffer, data)
    identity = _identity(message.cluster_id, read_member(message.member))
    return Offer(identity, read_configuration(message.first_voters))


def encode_offer_answer(refusal: str | None) -> bytes:
    return pb.BootstrapOfferAnswer(refusal=refusal or "").SerializeToString()


def decode_offer_answer(data: bytes) -> str | None:
    """Return why the offer was refused; None if it was accepted."""
    return parse(pb.BootstrapOfferAnswer, data).refusal or None


def _identity(cluster_id: str, member: Member) -> StoreIdentity:
    return StoreIdentity(cluster_id, member.node_id, member.directory_id)
