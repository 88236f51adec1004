"""Tests of a module that share a cluster are run by one worker: every other would start a cluster of its own."""

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and "integration" in item.path.parts and _shares_a_cluster(item):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


def _shares_a_cluster(item: pytest.Function) -> bool:
    """Chapters of transcripts are long, and most have a cluster of their own: they are run wherever there is time."""
    fixtures = (each for found in item._fixtureinfo.name2fixturedefs.values() for each in found)
    return item.path.stem != "test_transcripts" and any(fixture.scope == "module" for fixture in fixtures)
