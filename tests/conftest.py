"""Settings of the whole test run."""

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

# Deadlines measure the machine, not the code. Under CI the examples are the same in every run, so a red build means a
# change; elsewhere they differ from run to run, and the failing ones are kept in .hypothesis/.
hypothesis.settings.register_profile("dev", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Collect only files of tests here: `--doctest-modules`, meant for the package, would import all others too."""
    helper = collection_path.suffix == ".py" and not collection_path.name.startswith("test_")
    return True if helper else None  # None leaves the decision to others, such as --ignore


@pytest.fixture(autouse=True, scope="session")
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what the library caches for its user out of the home of whoever runs the tests."""
    os.environ["ENERGON_NODES_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    os.environ.pop("ENERGON_NODES_CACHE", None)  # doctests, which may run in between, set and remove it too
