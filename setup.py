"""Map the rooms of the house to packages: each top-level folder is the package `lograft.<folder>`.

All else about the project is in pyproject.toml. Sub-packages need no line here: setuptools finds them through their
room.
"""

from setuptools import find_packages, setup

ROOMS = ("broker", "chaos", "cli", "clients", "metadata", "proto", "raft", "rpc", "runtime", "spark", "storage")

packages = ["lograft", "pyspark_lograft"]
for room in ROOMS:
    packages += [f"lograft.{room}", *(f"lograft.{room}.{inner}" for inner in find_packages(room))]

setup(
    packages=packages,
    package_dir={
        "lograft": "lograft",
        "pyspark_lograft": "spark_plugin/pyspark_lograft",
        **{f"lograft.{room}": room for room in ROOMS},
    },
)
