"""The life of one partition on three brokers: the cores of its replicas, and real decisions of the controller.

Everything between them is as late as it likes: each broker's image, what is said on a stream (in order on each, but a
stream that was given up may still deliver), requests to the controller and their answers, which may also be lost while
the request is not. Processes crash and come back with what is durable; disks fail, rot and are wiped, and their oldest
records are deleted.

Each part builds on the one before: `replica_views`, `replica_talk`, and what happens to them, here. What must hold: see
`replica_ledger.Ledger`.
"""

from contextlib import suppress
from uuid import UUID

from support.replica_processes import Process, Request
from support.replica_talk import ReplicaTalk
from support.replica_views import BROKERS, KEY, TOPIC, counts

from lograft.broker.replication.follower_core import FollowerCore
from lograft.metadata.decisions.alter_configs import alter_configs
from lograft.metadata.decisions.brokers.fencing import fence, unfence
from lograft.metadata.decisions.brokers.registration import Registration, latest_epoch, register
from lograft.metadata.decisions.brokers.report_failures import report_failures
from lograft.metadata.decisions.partitions.alter_isr import Alteration, alter_partitions
from lograft.metadata.decisions.partitions.elect_leaders import elect_possible, elect_preferred, elect_unclean_leaders
from lograft.metadata.decisions.partitions.log_ends import LogEnd
from lograft.metadata.image.partition import BrokerId, LeaderEpoch
from lograft.metadata.image.records import ConfigResource, ResourceKind
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.rng import Rng


class ReplicaLife(ReplicaTalk):
    """Whatever may happen to three replicas, one step at a time."""

    # -- the ISR

    def propose(self, which: int) -> None:
        if leaders := self.leaders():
            process, core = leaders[which % len(leaders)]
            proposal = core.propose(self.history[process.view].brokers, self.now_ms)
            if proposal is not None:
                self.requests.append(Request(process, core, proposal))
            self._told(core, process)

    def deliver_request(self, which: int) -> None:
        waiting = [request for request in self.requests if request.outcome is None]
        if waiting:
            self._deliver(waiting[which % len(waiting)])

    def _deliver(self, request: Request) -> None:
        process, proposal = request.process, request.proposal
        asked = Alteration(*KEY, proposal.leader_epoch, proposal.partition_epoch, proposal.isr)
        try:
            decision = alter_partitions(self.image, process.broker_id, process.epoch, [asked])
        except ControllerError as error:
            request.outcome = error
        else:
            request.outcome = decision.answer[0].outcome
            self.carry_out(decision)
        self._forget_settled()

    def answer_request(self, which: int) -> None:
        answered = [request for request in self.requests if request.outcome is not None]
        if answered:
            self._answer(answered[which % len(answered)])

    def _answer(self, request: Request) -> None:
        request.is_awaited = False
        core, outcome = request.core, request.outcome
        if isinstance(outcome, ControllerError):
            core.alteration_refused(request.proposal, self.now_ms)
        elif outcome is not None:
            core.alteration_accepted(request.proposal, outcome.partition_epoch, self.now_ms)
        if request.process.core is core and request.process.is_running:
            self._told(core, request.process)
        self._forget_settled()

    def lose_answer(self, which: int) -> None:
        """The leader waits no longer. The request may be delivered yet."""
        awaited = [request for request in self.requests if request.is_awaited]
        if awaited:
            request = awaited[which % len(awaited)]
            request.is_awaited = False
            request.core.alteration_unknown(request.proposal, self.now_ms)
            self._forget_settled()

    def _forget_settled(self) -> None:
        self.requests = [one for one in self.requests if one.is_awaited or one.outcome is None]

    def pass_time(self, milliseconds: int) -> None:
        self.now_ms += milliseconds

    # -- what happens to brokers

    def note_watermark(self, broker_id: BrokerId) -> None:
        process = self.processes[broker_id]
        if process.is_running:
            core = process.core
            self._used(process).noted_watermark = core.high_watermark if core is not None else process.watermark

    def crash(self, broker_id: BrokerId, seed: int) -> None:
        process, rng = self.processes[broker_id], Rng(seed)
        if process.is_running:
            process.is_running = False
            if isinstance(process.core, FollowerCore) and rng.random() < 0.5:
                self._finish_cut(process, process.core)
            process.core = process.stream = None
            self.disks[broker_id].crash(rng)

    def start(self, broker_id: BrokerId, is_wiped: bool = False, has_all: bool = True) -> None:
        """`has_all`: with both directories; else one is away."""
        process, disks = self.processes[broker_id], self.disks[broker_id]
        if process.is_running:
            return
        if is_wiped:
            disks.wipe()
        directories = tuple(one.directory_id for one in disks.directories if has_all or one is not disks.used)
        self._incarnations += 1
        decision = register(
            self.image,
            Registration(
                broker_id, UUID(int=self._incarnations), f"broker-{broker_id}:9092", None, directories,
                f"boot-{self._incarnations}", None, 1, 1,
            ),
            previous_epoch=latest_epoch(self.image, broker_id),
            is_old_alive=False,
        )  # fmt: skip
        self.carry_out(decision)
        self.processes[broker_id] = Process(
            broker_id, decision.answer, len(self.history) - 1, disks.used.watermark, directories
        )
        self._take_role(self.processes[broker_id])

    def find_corrupt(self, broker_id: BrokerId, seed: int) -> None:
        process = self.processes[broker_id]
        used = self._used(process)
        if process.is_running and not used.is_corrupt and process.failed is None:
            self._resign(process)
            process.reported_at = None
            used.rot(Rng(seed))

    def report_corrupt(self, broker_id: BrokerId) -> None:
        """If that is not known, as far as it can see."""
        process = self.processes[broker_id]
        is_told = process.reported_at is not None and not counts(self._known(process), broker_id)
        if process.is_running and process.failed is None and self._used(process).is_corrupt and not is_told:
            with suppress(ControllerError):
                self.carry_out(report_failures(self.image, broker_id, process.epoch, [], [KEY]))
                process.reported_at = len(self.history) - 1
                if process.view >= process.reported_at:
                    self._take_role(process)

    def lose_directory(self, broker_id: BrokerId) -> None:
        """That which it uses, if it has another. It may be back with a later process."""
        process = self.processes[broker_id]
        if process.is_running and process.failed is None and len(process.directories) > 1:
            self._resign(process)
            process.failed = self._used(process).directory_id
            process.directories = tuple(one for one in process.directories if one != process.failed)

    def report_failure(self, broker_id: BrokerId) -> None:
        process = self.processes[broker_id]
        if process.is_running and process.failed is not None and process.failure_known_at is None:
            with suppress(ControllerError):
                self.carry_out(report_failures(self.image, broker_id, process.epoch, [process.failed], []))
                process.failure_known_at = len(self.history) - 1

    def fence(self, broker_id: BrokerId) -> None:
        self.carry_out(fence(self.image, broker_id, self.image.brokers[broker_id].epoch))

    def unfence(self, broker_id: BrokerId) -> None:
        """It has recovered its logs, and reported those that it could not."""
        process = self.processes[broker_id]
        if process.is_running and not (self._used(process).is_corrupt and process.reported_at is None):
            self.carry_out(unfence(self.image, broker_id, process.epoch))

    # -- what operators ask for

    def set_min_isr(self, value: str | None) -> None:
        resource = ConfigResource(ResourceKind.TOPIC, str(TOPIC))
        with suppress(ControllerError):
            self.carry_out(alter_configs(self.image, resource, {"min.insync.replicas": value}))

    def elect_preferred(self) -> None:
        self.carry_out(elect_preferred(self.image, None))

    def elect_uncleanly(self) -> None:
        ends = {}
        for process in self.running():
            known = self._known(process)
            is_named = known.directory_of(process.broker_id) == self._used(process).directory_id
            if known.leader_epoch == self.partition.leader_epoch and known.leader is None and is_named:
                log = self._log(process)
                last = log.epochs.latest.epoch if log.epochs.latest is not None else -1
                ends[process.broker_id] = LogEnd(process.epoch, LeaderEpoch(last), log.end_offset)
        self.carry_out(elect_unclean_leaders(self.image, [KEY], {KEY: ends}))

    # -- when all is well again

    def get_well(self, there: tuple[BrokerId, ...]) -> bool:
        """For long enough that nothing is left to be done. If what was acknowledged is lost, that is accepted. False:
        nobody has any of the directories that the metadata name."""
        for broker_id in there:
            if len(self.processes[broker_id].directories) < 2:
                self.crash(broker_id, 0)  # it is started again, with both
        for _ in range(2):
            for _ in range(15):
                self.run_well(there)
            if self.partition.leader is not None:
                return True
            self.elect_uncleanly()
        assert not any(self.disks[one].find(self.partition.directory_of(one)) for one in there)
        return False

    def run_well(self, there: tuple[BrokerId, ...] = BROKERS) -> None:
        """Nothing is late or lost for a second, and these brokers run."""
        for broker_id in there:
            self.start(broker_id)
            self.report_failure(broker_id)
            self.report_corrupt(broker_id)
            self.unfence(broker_id)
        self.carry_out(elect_possible(self.image))
        self.pass_time(1000)
        for _ in range(3):
            self._run_once(there)
            self.check()

    def _run_once(self, there: tuple[BrokerId, ...]) -> None:
        for request in list(self.requests):
            if request.outcome is None:
                self._deliver(request)
            if request.is_awaited:
                self._answer(request)
        for broker_id in there:
            self.learn(broker_id, len(self.history))
            self.finish_cut(broker_id)
            self.sync(broker_id, 1.0)
            self.subscribe(broker_id)
            self.acknowledge(broker_id)
        for stream in self.streams:
            self._pass_on(stream)
        for broker_id in there:
            stream_of = self.processes[broker_id].stream
            while stream_of is not None and stream_of.answers and self.processes[broker_id].stream is stream_of:
                self.hear_leader(broker_id)
        for which in range(len(self.leaders())):
            self.propose(which)
