"""The stories for live clusters, by name. Each says what it does and what must hold."""

from collections.abc import Mapping

from lograft.chaos.live.stories import clients, links, machines, operators, processes
from lograft.chaos.live.stories.everything import everything
from lograft.chaos.live.stories.story import Scenario

ALWAYS = (
    "no acknowledged record is lost, doubled, altered or out of order; nothing that was read is taken back; replicas "
    "in sync are the same; settings behave like one register; groups get all there is. When nothing is wrong any more, "
    "all nodes are ready and in sync again."
)
"""The properties that must hold in each story."""

_STORIES: tuple[Scenario, ...] = (
    Scenario("control", "nothing goes wrong", "nothing fails, and writes do not pause", processes.control),
    Scenario(
        "kill-leader",
        "kill -9 of whoever leads a partition, again and again",
        "another one leads soon, with all that was acknowledged",
        processes.kill_leader,
    ),
    Scenario(
        "kill-controller",
        "kill -9 of the active controller, again and again",
        "another one takes over, with all that was decided",
        processes.kill_controller,
    ),
    Scenario("kill-all", "kill -9 of all nodes at once", "what was acknowledged is on their disks", processes.kill_all),
    Scenario(
        "last-replica-standing",
        "all replicas but one are killed, one after the other",
        "who was out of sync does not lead while others have more",
        processes.last_replica_standing,
    ),
    Scenario(
        "zombie-leader",
        "a leader stands still past its session, and goes on",
        "whatever it says afterwards does not count",
        processes.zombie_leader,
    ),
    Scenario(
        "rolling-restart",
        "nodes are stopped in order, and started again, one after the other",
        "leaders move before they stop, so writes hardly pause",
        processes.rolling_restart,
    ),
    Scenario(
        "rebalance-storm",
        "members of a group come, leave and are killed, now and then with their coordinator",
        "no partition has two owners, no committed offset goes back, no record is passed over",
        processes.rebalance_storm,
    ),
    Scenario(
        "power-failure",
        "the machine of a leader loses power, and all that it had not synced",
        "what was acknowledged had been synced",
        machines.power_failure,
    ),
    Scenario(
        "power-failure-of-all",
        "all machines lose power at one moment, and all that they had not synced",
        "what was acknowledged had been synced by all in sync",
        machines.power_failure_of_all,
    ),
    Scenario(
        "corrupt-minority",
        "while a node is down, a bit of its files flips, or one is cut short or is gone",
        "the damage is found, and made good from the others",
        machines.corrupt_minority,
    ),
    Scenario(
        "lost-files",
        "while a leader's node is down, files of a partition are removed: segments, indexes, checkpoints, all of them",
        "nothing counts as deleted that nobody decided to delete; what is missing is made good from the others",
        machines.lost_files,
    ),
    Scenario(
        "restored-backup",
        "a node's data are copied, used further, and the copy is put back; then its lost vote is replaced",
        "what the copy lacks is not lost: it is not elected, and does not vote",
        operators.restored_backup,
    ),
    Scenario(
        "disk-full",
        "the disk of a leader has no more room; then somebody makes some",
        "others take over, and nothing half written counts",
        machines.disk_full,
    ),
    Scenario(
        "slow-disk",
        "syncs of a leader's disk take up to seconds",
        "nothing is acknowledged before it is durable, however long that takes",
        machines.slow_disk,
    ),
    Scenario(
        "fsync-error",
        "syncs of a leader's disk fail; then the machine is restarted",
        "nothing is believed to be durable that a sync did not take",
        machines.fsync_error,
    ),
    Scenario(
        "clock-jump",
        "a leader's calendar jumps by up to a day, and its time goes too fast or too slowly",
        "nothing rests on clocks but how soon things happen",
        machines.clock_jump,
    ),
    Scenario(
        "cut-broker-from-controller",
        "a broker does not reach the controllers, or is not answered; brokers and clients still reach each other",
        "who is not heard of leads nothing; what it still acknowledges, all in sync have",
        links.cut_broker_from_controller,
    ),
    Scenario(
        "cut-leader-from-followers",
        "a leader and the other nodes are cut off, both ways or one way",
        "the side with most nodes goes on, and the other acknowledges nothing",
        links.cut_leader_from_followers,
    ),
    Scenario(
        "cut-leader-from-clients",
        "clients do not reach a leader, or are not answered",
        "what is sent again is stored once",
        links.cut_leader_from_clients,
    ),
    Scenario(
        "flapping-links",
        "connections break, and links come and go",
        "what is sent again is stored once, in its order",
        links.flapping_links,
    ),
    Scenario(
        "lossy-links",
        "a part of what goes to and from a node is lost, and sent again",
        "it only takes longer",
        links.lossy_links,
    ),
    Scenario(
        "slow-follower",
        "all that a node says and hears is late, or a trickle",
        "who cannot keep up leaves the ISR, and comes back",
        links.slow_follower,
    ),
    Scenario(
        "connection-flood",
        "more connections than a leader takes, to any of its ports, that say nothing or only greet; or a few whose "
        "streams begin with 40 MiB",
        "files keep their descriptors, other addresses their connections, memory is bounded, and nobody else notices",
        clients.connection_flood,
    ),
    Scenario(
        "slow-readers",
        "sixty readers ask a node for all of a large topic, and read nothing of what comes",
        "a node holds no more for them than its budget, and everybody else is served",
        clients.slow_readers,
    ),
    Scenario(
        "reassign-under-fire",
        "replicas move from broker to broker while those are killed",
        "a partition is never left to who does not have all of it",
        operators.reassign_under_fire,
        nodes=4,
    ),
    Scenario(
        "change-quorum",
        "voters are taken out and put back, lose their disks and are replaced; leadership is handed over",
        "no decision is lost or made twice",
        operators.change_quorum,
        nodes=4,
    ),
)

SCENARIOS: Mapping[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        *_STORIES,
        Scenario(
            "everything",
            "all of these, several at once, by turns",
            "all of these, at once",
            everything,
            nodes=4,
        ),
    )
}
