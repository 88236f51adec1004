"""Benchmarks are scripts, and no part of the package: the comparison is found by its path, nothing else there is."""

import importlib
import sys
from pathlib import Path

_FOLDER = str(Path(__file__).resolve().parents[3] / "benchmarks")

sys.path.insert(0, _FOLDER)
try:
    importlib.import_module("compare")
finally:
    sys.path.remove(_FOLDER)
