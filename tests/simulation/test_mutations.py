"""The mutation table: what is broken on purpose in the production code, one thing at a time, how that comes to light,
and what the simulator says of it.

With the rule broken a seed has to fail, saying that; with the rule the same seed has to pass. What shows in most
weather is left to chance: a few seeds, or one that is known to be quick. What shows only at a certain moment has a
story.
"""

from dataclasses import replace

import pytest
from support.cluster_chaos import (
    COMPACTED,
    FEW_IN_SYNC,
    GROUPS,
    POWER_CUTS,
    RESTLESS_LEADERS,
    SLOW_NETWORK,
    TORN_WRITES,
)
from support.metadata_chaos import (
    FORGETFUL_DISKS,
    RESTLESS_BROKERS,
    RESTLESS_CONTROLLERS,
    WIPED_DISKS,
    LateRegistration,
    LateRequest,
)
from support.mutations import duplicates, logs, raft, readers, replication
from support.mutations import metadata as meta
from support.mutations.duplicates import SILENT, sent_again
from support.mutations.logs import TABLE, the_last_in_sync_loses
from support.mutations.mutation import (
    Mutation,
    Trial,
    clusters,
    metadata,
    metadata_story,
    raft_cores,
    raft_nodes,
    story,
)

from lograft.broker.replica.interfaces import Acks
from lograft.chaos.raft.weather import RESTLESS

SMALL = logs.SMALL_SEGMENTS
UNCLEAN_TABLE = replace(TABLE, min_isr=1, unclean_probability=1.0)

EIGHT = [  # docs/reliability.md tells of them
    Mutation("watermark without the pending ISR", replication.count_only_who_is_known_to_be_in,
             story(replication.a_member_is_let_in_and_falls_behind, seed=6), "who may lead has what is committed"),
    Mutation("acknowledge before fsync", replication.acknowledge_before_the_disk_has_it,
             clusters(POWER_CUTS), "who counts has what is committed"),
    Mutation("truncate by watermark", replication.truncate_by_watermark,
             clusters(SLOW_NETWORK, quickest=1), "who may lead has what is committed"),
    Mutation("no epoch check", replication.check_no_epochs, clusters(RESTLESS_LEADERS, quickest=5), "NotLive"),
    Mutation("dedupe state lost at failover", duplicates.forget_producers_at_failover,
             story(sent_again(duplicates.another_leads), SILENT), "duplicate"),
    Mutation("a returning incarnation leading in its old epoch", replication.lead_on_after_a_restart,
             clusters(RESTLESS_LEADERS), "one leader an epoch"),
    Mutation("ISR join too early", replication.let_in_whoever_is_matched,
             story(replication.a_member_comes_back_far_behind, seed=6), "who counts has what is committed"),
    Mutation("torn tail kept", logs.keep_a_torn_tail, clusters(TORN_WRITES, quickest=5), "what a replica has is sound"),
]  # fmt: skip

RAFT = [
    Mutation("entries of older terms are committed by counting", raft.commit_by_counting,
             raft_cores(RESTLESS), "only the own term is counted"),
    Mutation("votes are told before they are durable", raft.answer_before_durable,
             raft_cores(RESTLESS), "said only when durable"),
    Mutation("two membership changes at once", raft.change_twice_at_once,
             raft_cores(raft.OPERATED), "one membership change at a time"),
    Mutation("a wiped node bootstraps", raft.bootstrap_anew,
             raft_cores(raft.WIPED), "committed is durable on a majority"),
    Mutation("a leader's word puts off no election", raft.keep_the_timer,
             raft_cores(raft.QUIET, seeds=3), "NotLive: a healthy leader of term"),
    Mutation("a snapshot ends one command early", raft.apply_twice,
             raft_cores(raft.FOLDED, seeds=3), "applied exactly once, in one order"),
    Mutation("a lost append is never sent again", raft.never_resend,
             raft_cores(raft.LOSSY, seeds=5), "NotLive: 20000 ms after the last fault"),
    Mutation("a removed voter never stands", raft.removed_never_stand,
             raft_cores(raft.OF_TWO, seeds=20, quickest=5), "NotLive: 20000 ms after the last fault"),
    Mutation("messages leave before what they say is saved", raft.send_before_saving,
             raft_nodes(raft.SHORT, is_streamed=False), "durable"),
    Mutation("messages leave before what they say is saved, on streams", raft.send_before_saving,
             raft_nodes(raft.SHORT, is_streamed=True), "durable"),
    Mutation("a snapshot names the first entry", raft.name_the_first_instead_of_the_last,
             raft_nodes(raft.SHORT, is_streamed=False), "applied exactly once, in one order"),
    Mutation("a snapshot names the first entry, on streams", raft.name_the_first_instead_of_the_last,
             raft_nodes(raft.SHORT, is_streamed=True), "applied exactly once, in one order"),
    Mutation("two wiped nodes of three make a new cluster", raft.bootstrap_with_those_who_answer,
             Trial(raft.lose_two_disks, (7,)), "one leader a term"),
]  # fmt: skip

METADATA = [
    Mutation("a fenced broker stays in ISRs", meta.fence_without_leaving,
             metadata(RESTLESS_BROKERS), "no fenced broker is in an ISR"),
    Mutation("a new process stays in ISRs", meta.register_without_leaving,
             metadata(RESTLESS_BROKERS), "no fenced broker is in an ISR"),
    Mutation("a new process has the broker epoch of the old one", meta.keep_the_broker_epoch,
             metadata(RESTLESS_BROKERS), "broker epochs only grow"),
    Mutation("the page cache is trusted after a power failure", meta.trust_the_page_cache_after_a_power_failure,
             metadata(FORGETFUL_DISKS), "has all that was acknowledged"),
    Mutation("a broker that lost its disk is elected", meta.elect_who_lost_its_disk,
             metadata(WIPED_DISKS), "who is in sync has the directory"),
    Mutation("the eligible are forgotten", meta.forget_the_eligible,
             metadata(RESTLESS_BROKERS), "below the minimum nobody is dropped"),
    Mutation("a leader epoch is used twice", meta.keep_the_leader_epoch,
             metadata(RESTLESS_BROKERS), "leader epochs count leaders"),
    Mutation("the minimum changes alone", meta.let_the_minimum_change_alone,
             metadata(RESTLESS_BROKERS, quickest=1), "the ELR is empty unless"),
    Mutation("anybody alive is elected", meta.elect_anybody_alive,
             metadata(RESTLESS_BROKERS), "eligible is only who was in sync"),
    Mutation("a reassignment is done before the new are in sync", meta.finish_before_in_sync,
             metadata(RESTLESS_BROKERS), "before those added are in sync"),
    Mutation("a corrupt replica stays where it is", meta.leave_the_corrupt_where_it_is,
             metadata(RESTLESS_BROKERS, quickest=1), "NotLive"),
    Mutation("answers come before the commit", meta.answer_before_it_is_committed,
             metadata(RESTLESS_CONTROLLERS), "acknowledged is committed"),
    Mutation("plans outlive the office", meta.keep_plans_after_the_office,
             metadata(RESTLESS_CONTROLLERS), "AssertionError"),
    Mutation("each attempt creates a topic of its own", meta.give_each_attempt_an_id_of_its_own,
             metadata(RESTLESS_BROKERS), "acknowledged is committed"),
    Mutation("reads are served without asking who leads", meta.read_what_is_here,
             metadata(RESTLESS_CONTROLLERS, seeds=20), "seen"),
    Mutation("a change is skipped", meta.skip_a_change, metadata(RESTLESS_CONTROLLERS), "NotLive"),
    Mutation("snapshots forget deleted topics", meta.forget_what_was_deleted,
             metadata(RESTLESS_CONTROLLERS), "the same image at the same index"),
    Mutation("a late request of a broker that lost power counts", meta.ignore_the_broker_epoch,
             metadata_story(LateRequest, meta.lose_power), "has all that was acknowledged"),
    Mutation("a late request counts though the ISR has changed", meta.ignore_the_partition_epoch,
             metadata_story(LateRequest, meta.be_away), "has all that was acknowledged"),
    Mutation("a late request brings a fenced broker into the ISR", meta.let_the_fenced_join,
             metadata_story(LateRequest, meta.fall_silent), "only an active broker joins an ISR"),
    Mutation("a late request takes back a corrupt replica", meta.keep_the_epoch_of_what_does_not_count,
             metadata_story(LateRequest, meta.rot), "has all that was acknowledged"),
    Mutation("a dead process registers after its successor", meta.register_whoever_asks,
             metadata_story(LateRegistration, meta.be_left_alone), "only a later process replaces one"),
]  # fmt: skip

REPLICATION = [
    Mutation("a watermark that is not known is served", replication.serve_a_watermark_that_is_not_known,
             clusters(SLOW_NETWORK, seeds=40, quickest=8), "watermark regression"),
    Mutation("a leader acknowledges at once", replication.acknowledge_at_once,
             clusters(RESTLESS_LEADERS, seeds=40), "only what is committed is told"),
    Mutation("a leader acknowledges below the minimum", replication.acknowledge_below_the_minimum,
             clusters(FEW_IN_SYNC, seeds=40), "who may lead has what is committed"),
    Mutation("readers get what is not committed", replication.serve_uncommitted,
             clusters(RESTLESS_LEADERS, seeds=40), "only what is committed is told"),
    Mutation("a member counts with whatever directory", replication.count_whatever_directory_it_is_in,
             story(replication.a_member_comes_back_with_another_disk), "who counts has what is committed"),
    Mutation("an old copy of a disk may lead", replication.trust_copies_from_the_past,
             story(replication.the_last_in_sync_comes_back_from_the_past), "who may lead has what is committed"),
    Mutation("strangers are heard", replication.hear_everybody,
             clusters(RESTLESS_LEADERS, seeds=0, quickest=2), "strangers are not heard"),
    Mutation("a leader knows no duplicates", duplicates.know_no_duplicates,
             story(sent_again(duplicates.nothing_more), SILENT), "duplicate"),
    Mutation("another leader knows no duplicates", duplicates.know_no_duplicates,
             story(sent_again(duplicates.another_leads), SILENT), "duplicate"),
    Mutation("a leader that was started again knows no duplicates", duplicates.know_no_duplicates,
             story(sent_again(duplicates.all_are_started_again), SILENT), "duplicate"),
    Mutation("recovery forgets producers", duplicates.recover_without_producers,
             story(sent_again(duplicates.all_are_started_again), SILENT), "duplicate"),
]  # fmt: skip

LOGS = [
    Mutation("the first segment there is the log's start", logs.take_the_first_segment_for_the_log_start,
             story(the_last_in_sync_loses(logs.the_first), SMALL, seed=1), "lost write"),
    Mutation("no segments are an empty log", logs.take_a_log_without_segments_for_an_empty_one,
             story(the_last_in_sync_loses(logs.all_of_them), SMALL, seed=1), "who may lead has what is committed"),
    Mutation("no watermarks are nothing lost", logs.take_a_directory_without_watermarks_for_a_sound_one,
             story(the_last_in_sync_loses(logs.all_of_them, loses_folder=True), SMALL, seed=1),
             "who may lead has what is committed"),
    Mutation("compaction takes out a record too many", logs.take_out_the_latest,
             clusters(COMPACTED, seeds=30), "replica divergence"),
    Mutation("what is not committed is compacted", logs.compact_what_is_not_committed,
             story(logs.a_leader_is_cut_off, replace(TABLE, acks=(Acks.LEADER,)), seed=1, meets="compactions"),
             "replica divergence"),
    Mutation("removed tombstones are forgotten", logs.forget_removed_tombstones,
             story(logs.a_member_is_away_while_tombstones_go, TABLE, seed=1, meets="compactions"),
             "lost write"),
    Mutation("a follower lacks what superseded something", logs.go_on_with_what_superseded_gone,
             story(logs.somebody_is_elected_who_has_less, UNCLEAN_TABLE, seed=1, meets="compactions"),
             "replica divergence"),
]  # fmt: skip

READERS = [
    Mutation("a member gets what another holds", readers.give_what_another_holds,
             clusters(GROUPS, seeds=30, quickest=7), "a partition has one reader"),
    Mutation("a coordinator loads nothing", readers.load_nothing,
             clusters(GROUPS, seeds=30), "a member begins where the group is"),
    Mutation("more is committed than was read", readers.commit_what_is_not_read_yet,
             clusters(GROUPS, seeds=30, quickest=1), "record never delivered to a group"),
    Mutation("a member that is cut off reads on", readers.believe_in_a_session_for_ever,
             story(readers.a_member_is_cut_off), "a partition has one reader"),
    Mutation("a consumer does not say what it read", readers.say_nothing_of_what_was_read,
             story(readers.a_leader_dies_that_alone_had_the_last_records, readers.UNCLEAN),
             "skipping poll"),
    Mutation("a coordinator that was replaced answers", readers.believe_to_lead_without_asking,
             story(readers.a_coordinator_that_was_replaced_is_asked), "what is committed does not go back"),
]  # fmt: skip

MUTATIONS = [*EIGHT, *RAFT, *METADATA, *REPLICATION, *LOGS, *READERS]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[each.name.replace(" ", "-") for each in MUTATIONS])
def test_what_is_broken_is_noticed(monkeypatch: pytest.MonkeyPatch, mutation: Mutation) -> None:
    mutation.is_noticed(monkeypatch)


def test_no_row_is_there_twice() -> None:
    assert len({each.name for each in MUTATIONS}) == len(MUTATIONS) == 67
    assert len({each.break_rule for each in EIGHT}) == 8
