"""Dice: the same seed, the same numbers; but production's secrets follow from nothing."""

from lograft.runtime.rng import Rng, SystemRng, system_rng


def test_simulated_secrets_replay_with_the_rest() -> None:
    assert Rng(7).secret_bytes(32) == Rng(7).secret_bytes(32)
    assert Rng(7).fork().secret_bytes(32) == Rng(7).fork().secret_bytes(32)


def test_productions_secrets_do_not_follow_from_its_seed() -> None:
    assert SystemRng(7).random() == SystemRng(7).random()
    assert SystemRng(7).secret_bytes(32) != SystemRng(7).secret_bytes(32)
    assert SystemRng(7).fork().secret_bytes(32) != SystemRng(7).fork().secret_bytes(32)
    assert isinstance(system_rng().fork(), SystemRng)
    assert len(system_rng().secret_bytes(32)) == 32
