"""`lograft chaos simulate`."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from lograft.cli.common.cluster_options import Settings, command_flags, read_duration

_DEFAULT_SEEDS = 100
_CAMPAIGN_SEEDS = 3_000
_SHRINK_FOR = "60s"


@click.command()
@click.option(
    "--seeds",
    type=click.IntRange(1),
    metavar="N",
    help=f"How many new ones.  [default: {_DEFAULT_SEEDS}; of a campaign, in all: {_CAMPAIGN_SEEDS}]",
)
@click.option("--first", type=click.IntRange(0), metavar="SEED", help="The first of them.  [default: a new one]")
@click.option("--seed", type=click.IntRange(0), help="This one only.")
@click.option("--trace", is_flag=True, help="With --seed: tell its story, event by event.")
@click.option(
    "--history",
    "history_path",
    metavar="FILE",
    help="With --seed: write all that clients did and saw, as `lograft chaos run` does.",
)
@click.option("--duration", metavar="DURATION", help="With --seed: trouble ends after so long.")
@click.option("--only-faults", metavar="NUMBERS", help="With --seed: those of its faults (3,7,9), or none.")
@click.option("--without-faults", metavar="NUMBERS", help="With --seed: all of its faults but those.")
@click.option("--without-clients", metavar="NAMES", help="With --seed: these do nothing (producer1,operator0).")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="How many processes.  [default: one a core]")
@click.option(
    "--shrink-for",
    metavar="DURATION",
    help=f"How long to look for a smaller run that fails alike; 0: not at all.  [default: {_SHRINK_FOR}]",
)
@click.option(
    "--campaign",
    "campaign_path",
    metavar="FILE",
    help="Keep in this file what was run; if it is there already, go on where it ends.",
)
@command_flags("table", "json", asks_cluster=False)
def simulate(
    settings: Settings, seeds: int | None, first: int | None, seed: int | None, trace: bool, history_path: str | None,
    duration: str | None, only_faults: str | None, without_faults: str | None, without_clients: str | None,
    jobs: int | None, shrink_for: str | None, campaign_path: str | None,
) -> None:  # fmt: skip
    """Run whole clusters on virtual time, each from a seed: controllers, brokers, producers, consumers, groups and
    operators, while processes, machines, disks, clocks and the network fail. Then judge what clients saw.

    \b
    lograft chaos simulate --seeds 300
    lograft chaos simulate --seed 17 --trace
    lograft chaos simulate --campaign campaign.jsonl --seeds 3000

    A seed that fails is made smaller (fewer faults, shorter, fewer clients), and the command that runs it again is
    printed. A run follows from its seed, to the last event.

    \b
    Exit code   0  everything held
                1  something did not
    """
    shrink_ms = _read_shrink_for(shrink_for)
    of_one = {
        "--trace": trace or None, "--history": history_path, "--duration": duration, "--only-faults": only_faults,
        "--without-faults": without_faults, "--without-clients": without_clients,
    }  # fmt: skip
    if seed is None:
        _refuse(of_one, "goes with --seed")
        count = seeds or (_CAMPAIGN_SEEDS if campaign_path is not None else _DEFAULT_SEEDS)
        is_sound = _run_many(count, first, jobs, shrink_ms, campaign_path, settings.output)
    else:
        _refuse({"--seeds": seeds, "--first": first, "--campaign": campaign_path, "--jobs": jobs},
                "does not go with --seed")  # fmt: skip
        is_whole = duration is None and only_faults is None and without_faults is None and without_clients is None
        is_shrunk = is_whole or shrink_for is not None
        is_sound = _run_one(
            seed, duration, only_faults, without_faults, without_clients, history_path, settings.output, trace=trace,
            shrink_ms=shrink_ms if is_shrunk else 0,
        )  # fmt: skip
    if not is_sound:
        raise SystemExit(1)


def _refuse(given: Mapping[str, object], why: str) -> None:
    for name, value in given.items():
        if value is not None:
            raise click.UsageError(f"{name} {why}")


def _read_shrink_for(text: str | None) -> int:
    return 0 if text in ("0", "0s") else read_duration(text or _SHRINK_FOR, "--shrink-for")


def _run_many(
    seeds: int, first: int | None, jobs: int | None, shrink_ms: int, campaign_path: str | None, output: str
) -> bool:
    from lograft.chaos.simulate.campaign import SeedCampaign
    from lograft.chaos.simulate.sweep import Sweep
    from lograft.runtime.process.process_pool import core_count
    from lograft.runtime.rng import system_rng

    first = first if first is not None else system_rng().randrange(1, 2**31)
    campaign = SeedCampaign(Path(campaign_path), first) if campaign_path is not None else None
    sweep = Sweep(campaign.first if campaign is not None else first)
    for outcome in campaign.outcomes.values() if campaign is not None else ():
        sweep.add(outcome)
    left = list(campaign.left(seeds) if campaign is not None else range(first, first + seeds))
    done = f", {sweep.runs} of them done" if campaign is not None else ""
    click.echo(f"{seeds} seeds from {sweep.first} on{done}", err=True)
    keep = campaign.add if campaign is not None else lambda outcome: None
    try:
        sweep.run(left, len(left), jobs or core_count(), sys.stderr, keep)
        if shrink_ms:
            sweep.shrink(shrink_ms, lambda line: click.echo(line, err=True))
    finally:
        # A user who interrupts the run wants the results so far.
        if output == "json":
            click.echo(json.dumps(sweep.document(), indent=2))
        else:
            click.echo("\n".join(sweep.conclusion()))
    return not sweep.failed


def _run_one(
    seed: int, duration: str | None, only_faults: str | None, without_faults: str | None,
    without_clients: str | None, history_path: str | None, output: str, *, trace: bool, shrink_ms: int,
) -> bool:  # fmt: skip
    from lograft.chaos.cluster.world.selection import Selection
    from lograft.chaos.history.history import History, write_history
    from lograft.chaos.simulate.case import Case
    from lograft.chaos.simulate.run_case import run_case
    from lograft.chaos.simulate.sweep import Sweep, shrink

    selection = Selection(
        read_duration(duration, "--duration") if duration is not None else None,
        _read_numbers("--only-faults", only_faults) if only_faults is not None else None,
        _read_numbers("--without-faults", without_faults) if without_faults is not None else (),
        tuple(sorted(without_clients.split(","))) if without_clients else (),
    )
    case = Case(seed, selection)
    _check_clients(seed, selection.without_clients)

    def keep(history: History) -> None:
        if history_path is not None:
            with Path(history_path).open("w") as file:
                write_history(history, file)

    outcome = run_case(case, (lambda lines: click.echo("\n".join(lines))) if trace else None, keep)
    sweep = Sweep(seed)
    sweep.add(outcome)
    if outcome.failure is not None and shrink_ms:
        click.echo(f"making it smaller, for {shrink_ms / 1000:.0f} s at most", err=True)
        sweep.shrunk[seed] = shrink(case, outcome, shrink_ms)
    if output == "json":
        click.echo(json.dumps({**sweep.document(), "digest": outcome.digest}, indent=2))
    else:
        click.echo("\n".join(sweep.conclusion()))
        click.echo(
            f"{outcome.virtual_ms / 1000:.1f} simulated seconds, {len(outcome.faults)} faults; digest {outcome.digest}"
        )
    return outcome.failure is None


def _check_clients(seed: int, names: tuple[str, ...]) -> None:
    from lograft.chaos.cluster.world.weather import client_names, draw_cluster_weather
    from lograft.runtime.rng import Rng

    known = client_names(draw_cluster_weather(Rng(seed)))
    for name in names:
        if name not in known:
            raise click.UsageError(f"seed {seed} has no client {name!r}: it has {', '.join(known)}")


def _read_numbers(option: str, text: str) -> tuple[int, ...]:
    from lograft.chaos.simulate.case import read_numbers

    try:
        return read_numbers(text)
    except ValueError:
        raise click.UsageError(
            f"{option} {text}: give numbers of faults, as --trace tells them (3,7,9), or none"
        ) from None
