"""Where peers come from: what the user names, what is installed, or what Debian and Maven have.

What is fetched goes into `.bench/` in the checkout and is used from there, not installed; `make clean` removes it.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from compare.failures import CannotRun

CACHE = Path(__file__).resolve().parents[2] / ".bench"
KAFKA_VERSION = "4.3.1"
SCALA = "2.13"

# The newest for which Maven Central has both jars; Spark 4 reads with it, whatever its minor version.
_SPARK_FALLBACKS = ("4.0.0",)

_TIMEOUT_SECONDS = 400
_NO_TRANSITIVE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>lograft.bench</groupId><artifactId>peer</artifactId><version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""


@dataclass(frozen=True, slots=True)
class Program:
    """A server, and the variables that it wants to be started with."""

    path: str
    version: str
    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class KafkaJars:
    class_path: str
    version: str


@dataclass(frozen=True, slots=True)
class Artifact:
    """`group:name:version`, with or without what it depends on."""

    group: str
    name: str
    version: str
    is_alone: bool = False

    def as_dependency(self) -> str:
        return (
            f"    <dependency><groupId>{self.group}</groupId><artifactId>{self.name}</artifactId>"
            f"<version>{self.version}</version>{_NO_TRANSITIVE if self.is_alone else ''}</dependency>"
        )


# -- Debian


def find_nats() -> Program:
    return _find("nats-server", "NATS_SERVER", ["nats-server"], ["--version"])


def find_redis() -> Program:
    packages = ["redis-server", "redis-tools", "liblzf1", "libjemalloc2"]
    return _find("redis-server", "REDIS_SERVER", packages, ["--version"])


def _find(name: str, variable: str, packages: Sequence[str], ask_version: Sequence[str]) -> Program:
    named = os.environ.get(variable)
    if named and not os.access(named, os.X_OK):
        raise CannotRun(f"{variable} is {named}, which is not a program")
    path = named or shutil.which(name)
    variables: dict[str, str] = {}
    if path is None:
        path, variables = _from_debian(name, variable, packages)
    said = subprocess.run(
        [path, *ask_version], capture_output=True, text=True, check=False, env={**os.environ, **variables}
    )
    if said.returncode:
        raise CannotRun(f"{path} does not run: {(said.stderr or said.stdout).strip()}")
    return Program(path, f"{name} {short_version(said.stdout)}", variables)


def short_version(text: str) -> str:
    """The first thing that looks like one."""
    found = re.search(r"\d+\.\d+\.\d+", text)
    return found.group() if found else text.strip()


def _from_debian(name: str, variable: str, packages: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Packages are downloaded and unpacked, not installed: installing one would start a service, and need root."""
    root = CACHE / name
    if not (root / "complete").exists():
        if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
            raise CannotRun(f"no {name} found, and no apt to get it with: install it, or set {variable}")
        root.mkdir(parents=True, exist_ok=True)
        _execute(["apt-get", "download", *packages], root, f"set {variable}")
        for package in root.glob("*.deb"):
            _execute(["dpkg-deb", "-x", str(package), str(root)], root, f"set {variable}")
        (root / "complete").touch()
    path = next((found for folder in ("usr/bin", "usr/sbin") if (found := root / folder / name).exists()), None)
    if path is None:
        raise CannotRun(f"Debian's package has no {name} in it: set {variable}")
    libraries = sorted({str(library.parent) for library in root.glob("usr/lib/**/*.so*")})
    return str(path), {"LD_LIBRARY_PATH": os.pathsep.join(libraries)} if libraries else {}


# -- Maven


def find_kafka() -> KafkaJars:
    if not shutil.which("java"):
        raise CannotRun("no java found: install a Java 17 runtime")
    home = os.environ.get("KAFKA_HOME")
    if home:
        folder = Path(home) / "libs"
    else:
        folder = _from_maven(
            f"kafka-{KAFKA_VERSION}",
            [
                Artifact("org.apache.kafka", f"kafka_{SCALA}", KAFKA_VERSION),
                Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.1"),
            ],
        )
    jars = sorted(folder.glob("*.jar"))
    version = next(
        (found.group(1) for jar in jars if (found := re.match(r"kafka_[\d.]+-([\d.]+)\.jar", jar.name))), None
    )
    if version is None:
        raise CannotRun(f"{folder} has no kafka_{SCALA}-*.jar: set KAFKA_HOME to a distribution of Kafka")
    return KafkaJars(f"{folder}/*", version)


def _from_maven(name: str, artifacts: Sequence[Artifact]) -> Path:
    folder = CACHE / name
    if not (folder / "complete").exists():
        if not shutil.which("mvn"):
            raise CannotRun("no mvn found to get jars with: install maven, or set KAFKA_HOME")
        folder.mkdir(parents=True, exist_ok=True)
        pom = folder / "pom.xml"
        pom.write_text(_POM.format(dependencies="\n".join(artifact.as_dependency() for artifact in artifacts)))
        repository = f"-Dmaven.repo.local={CACHE / 'maven'}"
        _execute(
            [
                "mvn",
                "-q",
                "-B",
                "-f",
                str(pom),
                repository,
                "dependency:copy-dependencies",
                f"-DoutputDirectory={folder}",
            ],
            folder,
            "see that Maven's repositories can be reached, or set KAFKA_HOME",
        )
        (folder / "complete").touch()
    return folder


def _execute(command: Sequence[str], directory: Path, remedy: str) -> None:
    try:
        done = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, check=False, timeout=_TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise CannotRun(f"{command[0]} took more than {_TIMEOUT_SECONDS} s: {remedy}") from None
    if done.returncode:
        raise CannotRun(f"{command[0]}: {_reason(done.stderr + done.stdout)}; {remedy}")


def _reason(output: str) -> str:
    """Of all that it said, the line that tells most: the first that is an error."""
    lines = [line for line in output.splitlines() if line.strip() and not line.startswith("W:")]
    found = next(
        (line for line in lines if "ERROR" in line or line.startswith("E:")), lines[0] if lines else "no reason"
    )
    return found[:300]


@dataclass(frozen=True, slots=True)
class SparkSource:
    """Spark's own source for Kafka."""

    jars: list[Path]
    description: str


def find_spark_source() -> SparkSource:
    """Of the version of the Spark that is installed, or, if Maven does not have that, one that it has whole."""
    import pyspark

    refused = ""
    for version in dict.fromkeys((pyspark.__version__, *_SPARK_FALLBACKS)):
        try:
            folder = _from_maven(f"spark-kafka-{version}", _spark_artifacts(version))
        except CannotRun as error:
            refused = refused or str(error)
            continue
        note = "" if version == pyspark.__version__ else f", because Maven has no {pyspark.__version__}"
        return SparkSource(
            sorted(folder.glob("*.jar")), f"spark-sql-kafka-0-10 {version}{note}; Spark {pyspark.__version__}"
        )
    raise CannotRun(refused)


def _spark_artifacts(version: str) -> list[Artifact]:
    """Alone: what else they depend on, Spark brings along."""
    return [
        Artifact("org.apache.spark", f"spark-sql-kafka-0-10_{SCALA}", version, is_alone=True),
        Artifact("org.apache.spark", f"spark-token-provider-kafka-0-10_{SCALA}", version, is_alone=True),
        Artifact("org.apache.kafka", "kafka-clients", "3.9.1", is_alone=True),
        Artifact("org.apache.commons", "commons-pool2", "2.12.0", is_alone=True),
    ]
