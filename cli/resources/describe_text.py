"""Text of `lograft describe`: facts, then tables. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from lograft.cli.common.cluster_options import Settings
from lograft.cli.common.units import count_text, size_text, span_text
from lograft.cli.output.resource_output import Column, Resource, cell_text, red, table_lines
from lograft.cli.resources.cluster_resources import version_text
from lograft.cli.resources.disk_resources import room_text
from lograft.cli.resources.group_health import GroupVerdict

_BAD_VERDICTS = (GroupVerdict.STALLED.value, GroupVerdict.FALLING_BEHIND.value)
_TOO_LATE = "not available in time"
_ABBREVIATIONS = ("id", "isr", "elr")


class Fact(NamedTuple):
    title: str
    value: Any
    is_bad: bool = False


class Table(NamedTuple):
    """`none`: text instead of an empty table; if it is empty, the table is omitted."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Resource] | None
    none: str = ""


class Story(NamedTuple):
    facts: Sequence[Fact]
    tables: Sequence[Table]


def story_lines(each: Resource, settings: Settings, *, is_coloured: bool) -> Iterator[str]:
    facts, tables = _STORIES.get(each["kind"], _plain_story)(each)
    wide = replace(settings, output="wide")
    width = max(len(fact.title) for fact in facts) + 1
    for title, value, is_bad in facts:
        text = cell_text(value)
        yield f"{title + ':':<{width}}  {red(text) if is_bad and is_coloured else text}\n"
    for title, columns, rows, none in tables:
        if rows:
            yield f"\n{title}:\n"
            yield from (f"  {line}" for line in table_lines(rows, columns, wide, is_coloured=is_coloured))
        elif none:
            yield f"\n{title}: {none}\n"


def _field(name: str) -> Callable[[Resource], Any]:
    return lambda row: row[name]


def _size(name: str = "bytes") -> Callable[[Resource], str | None]:
    return lambda row: size_text(row[name])


def _total(rows: Sequence[Resource], name: str) -> int | None:
    """Return the sum, or None if a value is unknown."""
    values = [row[name] for row in rows]
    return None if None in values else sum(values)


def _used(columns: Sequence[Column], rows: Sequence[Resource]) -> list[Column]:
    """Return the columns without wide ones that are empty."""
    return [each for each in columns if not each.is_wide or any(each.cell(row) not in (None, []) for row in rows)]


_CONFIG_COLUMNS = (
    Column("KEY", _field("key")),
    Column("VALUE", _field("value")),
    Column("SOURCE", _field("source")),
)


def _config_table(status: Resource) -> Table:
    """Return the configuration table, with non-default keys first."""
    if status["config"] is None:
        return Table("Configuration", _CONFIG_COLUMNS, None, _TOO_LATE)
    return Table(
        "Configuration", _CONFIG_COLUMNS, sorted(status["config"], key=lambda entry: bool(entry["source"] == "default"))
    )


# -- topics

_PARTITION_COLUMNS = (
    Column("PARTITION", _field("partition"), is_number=True),
    Column("LEADER", _field("leader"), is_number=True, is_bad=lambda row: row["leader"] is None),
    Column("EPOCH", _field("leaderEpoch"), is_number=True),
    Column("REPLICAS", _field("replicas")),
    Column("ISR", _field("isr"), is_bad=lambda row: not set(row["isr"]) >= set(row["replicas"])),
    Column("ELR", _field("elr"), is_wide=True),
    Column("ADDING", _field("adding"), is_wide=True),
    Column("REMOVING", _field("removing"), is_wide=True),
    Column("UNCLEAN", _field("uncleanEpoch"), is_number=True, is_wide=True),
    Column("START", _field("startOffset"), is_number=True),
    Column("WATERMARK", _field("highWatermark"), is_number=True),
    Column("END", _field("endOffset"), is_number=True),
    Column("SIZE", _size(), is_number=True),
)

_READER_COLUMNS = (
    Column("GROUP", _field("name")),
    Column("STATE", _field("state")),
    Column("MEMBERS", _field("members"), is_number=True),
    Column("PARTITIONS", lambda row: len(row["partitions"]), is_number=True),
    Column("LAG", _field("lag"), is_number=True),
)


def _topic_story(each: Resource) -> Story:
    metadata, spec, status = each["metadata"], each["spec"], each["status"]
    partitions = status["partitions"]
    config = {entry["key"]: entry["value"] for entry in status["config"] or ()}
    needed = f", {config['min.insync.replicas']} must be in sync for writes" if config else ""
    troubles = [
        f"{number} {what}"
        for number, what in ((status["underReplicated"], "under-replicated"), (status["offline"], "without a leader"))
        if number
    ]
    facts = [
        Fact("Name", metadata["name"] + (" (internal)" if metadata["internal"] else "")),
        Fact("ID", metadata["id"]),
        Fact("Partitions", f"{len(partitions)}, {' and '.join(troubles) or 'all in sync'}", bool(troubles)),
        Fact("Replicas", f"{spec['replicas']}{needed}"),
        Fact("Size", size_text(_total(partitions, "bytes"))),
        *_problem_facts(status["problems"]),
    ]
    groups = status["groups"]
    none = _TOO_LATE if groups is None else "no group has committed offsets"
    return Story(
        facts,
        [
            Table("Partitions", _used(_PARTITION_COLUMNS, partitions), partitions),
            Table("Consumer groups", _READER_COLUMNS, groups, none),
            _config_table(status),
        ],
    )


def _problem_facts(problems: Sequence[str]) -> list[Fact]:
    return [Fact("Problem", problem, is_bad=True) for problem in problems]


# -- the cluster

_CLUSTER_BROKER_COLUMNS = (
    Column("ID", _field("id"), is_number=True),
    Column("ADDRESS", _field("address")),
    Column("STATE", _field("state"), is_bad=lambda row: row["state"] != "active"),
    Column("LEADERS", _field("leaders"), is_number=True),
    Column("REPLICAS", _field("replicas"), is_number=True),
    Column("UPTIME", lambda row: None if row["uptimeMs"] is None else span_text(row["uptimeMs"]), is_number=True),
    Column("DISK FREE", lambda row: size_text(row["freeBytes"]), is_number=True),
)


def _cluster_story(each: Resource) -> Story:
    status = each["status"]
    troubles = [
        f"{status[name]} {what}"
        for name, what in (("underReplicated", "under-replicated"), ("offline", "without a leader"))
        if status[name]
    ]
    voters = "unreachable" if status["voters"] is None else f"{count_text(status['voters'], 'voter')}"
    facts = [
        Fact("Cluster", each["metadata"]["name"]),
        Fact("Health", "healthy" if status["healthy"] else "not healthy", not status["healthy"]),
        *_problem_facts(status["problems"]),
        Fact("Quorum", f"{voters}, led by {cell_text(status['controller'])}", status["controller"] is None),
        Fact("Topics", status["topics"]),
        Fact("Partitions", f"{status['partitions']}, {' and '.join(troubles) or 'all in sync'}", bool(troubles)),
    ]
    return Story(facts, [Table("Brokers", _CLUSTER_BROKER_COLUMNS, status["brokers"]), _config_table(status)])


# -- brokers

_DIRECTORY_COLUMNS = (
    Column("ID", _field("id")),
    Column("REPLICAS", _field("replicas"), is_number=True),
    Column("SIZE", _size(), is_number=True),
    Column(
        "DISK FREE", lambda row: room_text(row["freeBytes"], is_full=row["full"]), is_number=True, is_bad=_field("full")
    ),
    Column("RESERVE", lambda row: size_text(row["reserveBytes"]), is_number=True),
    Column("PATH", _field("path")),
)

_HOSTED_COLUMNS = (
    Column("TOPIC", _field("topic")),
    Column("LEADS", _field("leads"), is_number=True),
    Column("HOSTS", _field("hosts"), is_number=True),
    Column("NOT IN SYNC", _field("behind"), is_bad=_field("behind")),
    Column("SIZE", _size(), is_number=True),
)


def _broker_story(each: Resource) -> Story:
    spec, status = each["spec"], each["status"]
    hosted = status["partitions"]
    behind = status["replicas"] - status["inSync"]
    sync = f", {behind} of them not in sync" if behind else ", all in sync" if hosted else ""
    facts = [
        Fact("ID", each["metadata"]["id"]),
        Fact("Address", spec["address"]),
        Fact("Rack", spec["rack"]),
        Fact("State", _broker_state(status), status["state"] != "active"),
        Fact("Epoch", status["epoch"]),
        Fact("Version", version_text(each)),
        Fact("Partitions", f"leads {status['leaders']}, hosts {status['replicas']}{sync}", behind > 0),
        Fact("Size", size_text(_total(hosted, "bytes"))),
        *_load_facts(status["load"]),
    ]
    disks = {disk["directory"]: disk for disk in status["disks"] or ()}
    directories = [_directory(name, hosted, disks.get(name)) for name in status["directories"]]
    return Story(
        facts,
        [
            Table("Directories", _DIRECTORY_COLUMNS, directories),
            Table("Topics", _HOSTED_COLUMNS, _by_topic(hosted), "none"),
            _config_table(status),
        ],
    )


def _broker_state(status: Resource) -> str:
    meaning = ": the controller receives no heartbeats from it" if status["state"] == "fenced" else ""
    return f"{status['state']}{', cordoned' if status['cordoned'] else ''}{meaning}"


def _load_facts(load: Resource | None) -> list[Fact]:
    if load is None:
        return [Fact("Load", "unknown: the broker did not answer")]

    def rate(name: str) -> str:
        return f"{size_text(round(load[name]))}/s"

    lag = load["eventLoopLagMs"]
    return [
        Fact("Up", span_text(load["uptimeMs"])),
        Fact("In", f"{rate('bytesInPerSecond')}, {load['recordsInPerSecond']:g} records/s"),
        Fact("Out", f"{rate('bytesOutPerSecond')}, {load['recordsOutPerSecond']:g} records/s"),
        Fact("Replicated", f"{rate('replicatedBytesInPerSecond')} in, {rate('replicatedBytesOutPerSecond')} out"),
        Fact("Requests", f"{load['requestsPerSecond']:g}/s, {load['errorsPerSecond']:g} errors/s"),
        Fact("Loop lag", None if lag is None else f"{lag:.3g} ms"),
    ]


def _directory(name: str, hosted: Sequence[Resource], disk: Resource | None) -> Resource:
    """Return a row of a directory. Its content is unknown if the broker does not answer."""
    is_known = all(each["directoryId"] is not None for each in hosted)
    there = [each for each in hosted if each["directoryId"] == name]
    replicas, size = (len(there), _total(there, "bytes")) if is_known else (None, None)
    room = disk or {"freeBytes": None, "reserveBytes": None, "path": None, "full": False}
    return {"id": name, "replicas": replicas, "bytes": size} | room


def _by_topic(hosted: Sequence[Resource]) -> list[Resource]:
    rows = []
    for topic in dict.fromkeys(each["topic"] for each in hosted):
        own = [each for each in hosted if each["topic"] == topic]
        rows.append(
            {
                "topic": topic,
                "leads": sum(each["role"] == "leader" for each in own),
                "hosts": len(own),
                "behind": [each["partition"] for each in own if not each["inSync"]],
                "bytes": _total(own, "bytes"),
            }
        )
    return rows


# -- groups

_MEMBER_COLUMNS = (
    Column("MEMBER", _field("memberId")),
    Column("INSTANCE", _field("instanceId"), is_wide=True),
    Column("CLIENT", _field("clientId")),
    Column("RACK", _field("rack"), is_wide=True),
    Column("TOPICS", _field("topics")),
    Column("ASSIGNED", _field("assigned")),
    Column("GIVING UP", _field("givingUp"), is_wide=True),
)

_PROGRESS_COLUMNS = (
    Column("TOPIC", _field("topic")),
    Column("PARTITION", _field("partition"), is_number=True),
    Column("COMMITTED", _field("committed"), is_number=True),
    Column("END", _field("end"), is_number=True),
    Column("LAG", _field("lag"), is_number=True),
    Column("VERDICT", _field("verdict"), is_bad=lambda row: row["verdict"] in _BAD_VERDICTS),
    Column("MEMBER", _field("member")),
)


def _group_story(each: Resource) -> Story:
    status = each["status"]
    members, partitions = status["members"], status["partitions"]
    lag = status["lag"]
    facts = [
        Fact("Name", each["metadata"]["name"]),
        Fact("State", status["state"]),
        Fact("Verdict", f"{status['verdict']}: {status['reason']}", status["verdict"] in _BAD_VERDICTS),
        Fact("Lag", None if lag is None else count_text(lag, "record")),
        Fact("Assignor", each["spec"]["assignor"]),
        Fact("Coordinator", status["coordinator"]),
        Fact("Epoch", status["epoch"]),
    ]
    return Story(
        facts,
        [
            Table("Members", _used(_MEMBER_COLUMNS, members), members, "none"),
            Table("Partitions", _PROGRESS_COLUMNS, partitions, "none assigned or committed"),
        ],
    )


# -- the quorum


def _is_bad_voter(row: Resource) -> bool:
    return row["matchIndex"] is None or row["refusal"] is not None or row["reachable"] is False


_VOTER_COLUMNS = (
    Column("ID", _field("id"), is_number=True),
    Column("ADDRESS", _field("address")),
    Column("ROLE", _field("role")),
    Column("HAS", _field("matchIndex"), is_number=True),
    Column("LAG", _field("lag"), is_number=True),
    Column("DIRECTORY", _field("directoryId")),
    Column("STATE", _field("state"), is_bad=_is_bad_voter),
)


def _quorum_story(each: Resource) -> Story:
    status = each["status"]
    facts = [
        Fact("Cluster", each["metadata"]["name"]),
        Fact("Leader", status["leader"], status["leader"] is None),
        Fact("Term", status["term"]),
        Fact("Committed", f"{status['commitIndex']} of {status['lastIndex']}"),
    ]
    members = [*status["voters"], *status["learners"]]
    facts += [Fact("Refused", member["refusal"], True) for member in members if member["refusal"] is not None]
    voters = [_voter(voter, "leader" if voter["id"] == status["leader"] else "follower") for voter in status["voters"]]
    learners = [_voter(learner, "learner") for learner in status["learners"]]
    return Story(facts, [Table("Voters", _VOTER_COLUMNS, voters), Table("Learners", _VOTER_COLUMNS, learners)])


def _voter(member: Resource, role: str) -> Resource:
    lag = member["lag"]
    if member["refusal"] is not None:
        state = "refused"
    elif member["reachable"] is False:
        state = f"unreachable for {span_text(member['silentMs'])}"
    elif lag is None:
        state = "no answer yet"
    else:
        state = f"{lag} behind" if lag else "caught up"
    return member | {"role": role, "state": state}


# -- all else


def _plain_story(each: Resource) -> Story:
    """Lay out any resource: lists of mappings are tables, other values are facts."""
    parts: Sequence[Mapping[str, Any]] = (each["metadata"], each.get("spec", {}), each.get("status", {}))
    facts = [Fact("Name", each["metadata"]["name"])]
    tables = []
    for name, value in (item for part in parts for item in part.items()):
        if isinstance(value, list) and value and isinstance(value[0], dict):
            columns = [Column(_words(field).upper(), _field(field), _is_number(value, field)) for field in value[0]]
            shown = [column for column in columns if any(column.cell(row) not in (None, []) for row in value)]
            tables.append(Table(_title(name), shown, value))
        elif name != "name":
            facts.append(Fact(_title(name), value))
    return Story(facts, tables)


def _is_number(rows: Sequence[Resource], name: str) -> bool:
    return all(row[name] is None or isinstance(row[name], int) for row in rows)


def _title(name: str) -> str:
    if name in _ABBREVIATIONS:
        return name.upper()
    words = _words(name)
    return words[0].upper() + words[1:]


def _words(name: str) -> str:
    """Turn `leaderEpoch` into `leader epoch`."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)


_STORIES: Mapping[str, Callable[[Resource], Story]] = {
    "Topic": _topic_story,
    "Broker": _broker_story,
    "Group": _group_story,
    "Quorum": _quorum_story,
    "Cluster": _cluster_story,
}
