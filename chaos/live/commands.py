"""`lograft chaos ...`: stories for real processes, which are then judged, and simulated clusters (`chaos/simulate`)."""

import sys
import tempfile
from pathlib import Path

import click

from lograft.chaos.checkers.verdict import Verdict
from lograft.chaos.live.campaign import CampaignRefused, LiveCampaign
from lograft.chaos.live.judged_run import JudgedRun, judge_run
from lograft.chaos.live.stories.catalogue import ALWAYS, SCENARIOS
from lograft.chaos.live.terminal_view import LiveView
from lograft.chaos.simulate.commands import simulate
from lograft.cli.common.cluster_options import read_duration
from lograft.cli.common.command_error import CommandError
from lograft.runtime.rng import system_rng


@click.group()
def chaos() -> None:
    """Torment clusters, of real processes or simulated ones, and prove that nothing is lost."""


chaos.add_command(simulate)


@chaos.command("list")
@click.option("--names", is_flag=True, help="Names alone, one a line.")
def list_scenarios(names: bool) -> None:
    """List the stories that `lograft chaos run` knows: what each does, and what must hold."""
    width = max(map(len, SCENARIOS))
    for scenario in SCENARIOS.values():
        if names:
            click.echo(scenario.name)
            continue
        click.echo(f"{scenario.name:<{width}}   {scenario.tells}")
        click.echo(f"{'':<{width}}   must hold: {scenario.holds}")
    if not names:
        click.echo(f"\nIn each of them: {ALWAYS}")


@chaos.command()
@click.argument("name", metavar="NAME")
@click.option("--seed", type=click.IntRange(0), help="The story follows from it.  [default: a new one]")
@click.option("--duration", default="30s", show_default=True, metavar="DURATION", help="How long the story goes on.")
@click.option(
    "--report",
    "directory",
    metavar="DIR",
    help="Where report.html goes, with the history and the nodes' files.  [default: a new folder]",
)
def run(name: str, seed: int | None, duration: str, directory: str | None) -> None:
    """Put a new cluster through a story, while clients write and read; then judge what they saw.

    \b
    lograft chaos run kill-leader --seed 7 --duration 60s --report out/

    \b
    Exit code   0  everything held
                1  something did not, or the cluster did not recover
    """
    scenario = SCENARIOS.get(name)
    if scenario is None:
        raise click.UsageError(f"there is no story {name!r}: `lograft chaos list` shows those there are")
    seconds = read_duration(duration, "--duration") / 1000
    seed = system_rng().randrange(2**31) if seed is None else seed
    place = Path(directory) if directory is not None else Path(tempfile.mkdtemp(prefix="lograft-chaos-"))
    _check_empty(place)
    replay = f"lograft chaos run {name} --seed {seed} --duration {duration}"
    click.echo(f"{replay} --report {place}", err=True)
    judged = judge_run(scenario, seed, seconds, place, replay, view=LiveView(sys.stderr))
    _tell(judged.verdict, judged.trouble)
    click.echo(f"{judged.report}")
    if not judged.has_held:
        raise SystemExit(1)


@chaos.command()
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the first round; then the next.")
@click.option("--duration", default="60s", show_default=True, metavar="DURATION", help="Of each story.")
@click.option("--rounds", type=click.IntRange(1), default=1, show_default=True, help="How often all stories are run.")
@click.option("--only", multiple=True, metavar="NAME", help="This story alone; may be given more than once.")
@click.option("--report", "directory", required=True, metavar="DIR", help="Where the reports go, and how far it came.")
def campaign(seed: int, duration: str, rounds: int, only: tuple[str, ...], directory: str) -> None:
    """Run all stories, one after the other. What was run is kept in DIR: the same command goes on with the rest.

    \b
    lograft chaos campaign --duration 90s --report out/

    \b
    Exit code   0  everything held in all of them
                1  something did not
    """
    for name in only:
        if name not in SCENARIOS:
            raise click.UsageError(f"there is no story {name!r}: `lograft chaos list` shows those there are")
    try:
        duration_ms = read_duration(duration, "--duration")
        whole = LiveCampaign(Path(directory), only or tuple(SCENARIOS), seed, rounds, duration, duration_ms)
    except CampaignRefused as error:
        raise CommandError(str(error), "give --report another folder, or the same options as before") from None
    for line in whole.run(lambda: LiveView(sys.stderr)):
        click.echo(line, err=True)
    for line in whole.summary():
        click.echo(line)
    if not whole.has_held:
        raise SystemExit(1)


def _check_empty(place: Path) -> None:
    """Raise `CommandError` unless `place` is empty: files of an earlier run would be taken for this run's."""
    place.mkdir(parents=True, exist_ok=True)
    if any(place.iterdir()):
        raise CommandError(f"{place} is not empty", "give --report another folder, or empty that one")


def _tell(verdict: Verdict, trouble: str | None) -> None:
    known = verdict.availability
    click.echo(f"{known.acknowledged} of {known.sends} records acknowledged ({known.acknowledged_share:.2%})")
    click.echo(f"available in {known.available_share:.1%} of the seconds")
    if known.longest_pause is not None:
        click.echo(f"longest pause of writes: {known.longest_pause.length_ms / 1000:.2f} s")
    click.echo(f"faults: {len(verdict.faults)}")
    for each in verdict.unjudged:
        click.echo(f"not judged: {each}")
    for name, count in verdict.anomaly_counts.items():
        click.echo(f"{name.value}: {count}")
    for anomaly in verdict.anomalies[:5]:
        click.echo(f"  {anomaly.summary}")
    if trouble is not None:
        click.echo(trouble)
    click.echo(JudgedRun.headline(verdict, trouble))
