"""The state machine: whatever happens to a session, its result is that of the rows that count, or there is none.

A model that is a few lines long says what must come of each step: who is asked, who has answered, whether they are
enough. Attackers flip bits, cut off, replay, and speak for others; within one process, where there are no signatures to
stop them, they also put right the checksum of what they have changed. `tests.suite.right_results` says what is right.

A failure prints its steps, which are the same on every run. ANY_SESSION=1000 tries a thousand others for each case, at
random; `--hypothesis-seed=7` then makes the same ones again.
"""

import os
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from fhe_auc.base.errors import EvaluationError, FheAucError, MessageError, TooFewPartiesError
from fhe_auc.base.names import AGGREGATOR, HELPER
from tests.suite.right_results import check
from tests.suite.sessions import SEEDS, Case, World, other_session, parsed
from tests.support.wire import changed, flipped

MORE = int(os.environ.get("ANY_SESSION", "0"))
WHICH = st.integers(0, 10**6)
OTHERS: dict[str, Any] = {"protocol": "another", "session": b"x" * 16, "round": 9, "sender": "mallory", "manifest": b""}
"""Fields of an envelope, as a message has them that is not one of this round."""


class AnySession(RuleBasedStateMachine):
    """One session of a case."""

    case: Case

    @initialize(seed=st.integers(0, SEEDS - 1))
    def begin(self, seed: int) -> None:
        self.world = World(self.case, seed)
        self.away: set[str] = set()
        self.counted = self.case.parties  # by the model
        self.answered: list[str] = []  # this round, by the model
        self.ended = False
        self.told_lies = False  # from here on results may be missing, but not wrong

    # --- The model -------------------------------------------------------------------------------------------------

    @property
    def round(self) -> int:
        return len(self.world.asked)

    @property
    def asked(self) -> tuple[str, ...]:
        """Who is asked in this round; nobody once the session is over."""
        if self.ended:
            return ()
        helped = self.case.keys == "helper" and 1 < self.round < self.world.aggregator.rounds
        return (HELPER,) if helped else self.counted

    @property
    def needed(self) -> int:
        """How many answers this round needs."""
        if self.round == self.world.aggregator.rounds:
            return 0
        if self.asked == (HELPER,):
            return 1
        return self.case.least if self.round == 1 else len(self.counted)

    def awaited(self) -> list[str]:
        return [name for name in self.asked if name not in self.answered and name not in self.away]

    def answer_of(self, name: str) -> bytes:
        """What a site says in this round: it is asked once, however often its answer is taken on its way."""
        world = self.world
        assert world.message is not None
        if (self.round, name) not in world.said:
            world.said[self.round, name] = world.sites[name].respond(world.message)
            lengths = {len(parsed(world.said[key]).payload) for key in world.said if key[0] == self.round}
            assert len(lengths) == 1 or self.case.protocol == "ustat-pairs"  # whatever rows they have
        return world.said[self.round, name]

    def refused(self, name: str, submission: bytes, field: str = "", *, genuine: bool = False) -> None:
        """The aggregator takes nothing of this, and blames a party only for what is surely its own."""
        blamed = self.world.aggregator.refusals
        with pytest.raises(MessageError) as caught:
            self.world.aggregator.receive(name, submission)
        assert self.world.aggregator.refusals.keys() <= {*self.case.parties, HELPER}  # anybody may send rubbish
        if not genuine and self.case.way != "memory":
            assert self.world.aggregator.refusals == blamed
        elif name in self.asked:
            assert self.world.aggregator.refusals[name] in str(caught.value)
        assert field in ("", caught.value.field)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 400

    # --- What goes as it should --------------------------------------------------------------------------------------

    @precondition(lambda self: self.awaited())
    @rule(which=WHICH, killed=st.booleans())
    def answer(self, which: int, killed: bool) -> None:
        name = chosen(self.awaited(), which)
        said = self.answer_of(name)
        self.world.aggregator.receive(name, said)
        self.answered.append(name)
        self.refused(name, said, "sender", genuine=True)  # a replay
        if killed and self.round < self.world.aggregator.rounds:
            self.world.sites[name].restart(chosen(list(self.world.sites.values()), which))

    @precondition(lambda self: not self.ended)
    @rule(too_early=st.integers(0, 5), killed=st.booleans())
    def finish_round(self, too_early: int, killed: bool) -> None:
        """The last round, which needs no answer, mostly waits for all."""
        world, before = self.world, self.round
        if before == world.aggregator.rounds and self.awaited() and too_early < 5:
            return
        if len(self.answered) < self.needed:
            with pytest.raises(TooFewPartiesError) as caught:
                world.aggregator.finish_round()
            missing = [name for name in self.asked if name not in self.answered]
            assert all(repr(name) in str(caught.value) for name in missing)
            assert world.aggregator.round == before
            return
        if self.case.part == "earlier" and self.asked == (HELPER,) and self.counted != self.case.parties:
            with pytest.raises(EvaluationError, match="would tell the counts of"):
                world.aggregator.finish_round()
            return
        last = before == world.aggregator.rounds
        world.message = world.aggregator.finish_round()
        assert (world.message is None) == last
        if self.asked != (HELPER,) and not last:
            self.counted = tuple(name for name in self.counted if name in self.answered)
        self.ended, self.answered = last, self.answered if last else []  # those of the last round have confirmed it
        if world.message is not None:
            world.asked.append(world.message)
            assert world.aggregator.round == self.round
            assert world.aggregator.asked == self.asked
            if killed:
                world.restart_aggregator()
        assert world.aggregator.counted == self.counted

    @precondition(lambda self: not self.ended)
    @rule()
    def kill_the_aggregator(self) -> None:
        self.world.restart_aggregator()

    @rule(which=WHICH, other=WHICH)
    def kill_a_site(self, which: int, other: int) -> None:
        sites = list(self.world.sites.values())
        chosen(sites, which).restart(chosen(sites, other))

    @precondition(lambda self: not self.ended and len(self.away) <= len(self.case.parties) - self.case.least)
    @rule(which=WHICH, beyond=st.integers(0, 5))
    def leave(self, which: int, beyond: int) -> None:
        """One more may leave than the session goes on without; that is rare, as it mostly ends there."""
        name = chosen(self.case.parties, which)
        needed = len(self.away) == len(self.case.parties) - self.case.least or (self.case.echoes and self.round > 1)
        if beyond == 5 or not needed:
            self.away.add(name)

    @precondition(lambda self: not self.ended)
    @rule()
    def look_too_early(self) -> None:
        with pytest.raises(EvaluationError, match="has not ended"):
            self.world.aggregator.result()
        with pytest.raises(EvaluationError, match="already been started"):
            self.world.aggregator.start()

    # --- Answers that do not count ------------------------------------------------------------------------------------

    @precondition(lambda self: self.awaited())
    @rule(which=WHICH, at=WHICH)
    def answers_that_do_not_count(self, which: int, at: int) -> None:
        """Cut off, damaged, of another sender or round, or saying something else of itself."""
        awaited, said = self.awaited(), self.world.said
        name = chosen(awaited, which)
        own = self.answer_of(name)
        self.refused(name, own[: at % len(own)])
        self.refused(name, flipped(own, at % len(own)))
        field = chosen(sorted(OTHERS), at)
        self.refused(name, changed(own, **{field: OTHERS[field]}), field)
        for earlier in [said[number, author] for number, author in said if author == name and number < self.round]:
            self.refused(name, earlier)
            if self.case.way != "memory":
                self.refused(name, changed(earlier, round=self.round))
        if len(awaited) > 1:
            other = self.answer_of(chosen([each for each in awaited if each != name], at))
            self.refused(name, other, "sender")
            if self.case.way != "memory":
                self.refused(name, changed(other, sender=name), "signature")
        assert not self.world.aggregator.has_accepted(name)

    @precondition(lambda self: self.round == 1)
    @rule(which=WHICH)
    def of_another_session(self, which: int) -> None:
        name = chosen(self.case.parties, which)
        message, answers = other_session(self.case)
        self.refused(name, answers[name], "session")
        self.world.sites[name].refuse(message)

    @precondition(lambda self: self.case.way == "memory" and self.case.keys == "sealed")
    @rule(which=WHICH)
    def keys_of_another_session(self, which: int) -> None:
        self.world.refuse_other_keys(chosen(self.case.parties, which))

    @rule(name=st.sampled_from(["mallory", "", AGGREGATOR, "North", "north\n"]))
    def stranger(self, name: str) -> None:
        """Or one who came too late, or whose turn it is not."""
        self.refused(name, b"", "round" if self.ended else "sender")
        for other in () if self.ended else set(self.world.sites) - set(self.asked):
            self.refused(other, self.world.said.get((1, other), b""), "sender")

    # --- Questions that are not answered ------------------------------------------------------------------------------

    def silent(self) -> list[str]:
        """Those who have not been asked yet in this round."""
        return [name for name in self.asked if (self.round, name) not in self.world.said]

    @precondition(lambda self: not self.ended and self.silent())
    @rule(which=WHICH, at=WHICH)
    def questions_that_are_not_answered(self, which: int, at: int) -> None:
        site, message = self.world.sites[chosen(self.silent(), which)], self.world.asked[-1]
        field = chosen(sorted(OTHERS), at)
        for wrong in (message[: at % len(message)], flipped(message, at % len(message))):
            site.refuse(wrong)
        site.refuse(changed(message, **{field: OTHERS[field]}))

    @precondition(lambda self: not self.ended and self.world.said)
    @rule(which=WHICH)
    def question_once_more(self, which: int) -> None:
        number, name = chosen(sorted(self.world.said), which)
        if number == max(each for each, author in self.world.said if author == name):
            self.world.sites[name].ask_again(self.world.asked[number - 1], self.world.said[number, name])

    @precondition(lambda self: (not self.ended and self.asked == (HELPER,)) or (self.round > 1 and self.away))
    @rule()
    def question_for_others(self) -> None:
        """What the helper is asked is for no party, and the other way round."""
        lost = set() if self.asked == (HELPER,) else {author for _, author in self.world.said} - {HELPER}
        for name in set(self.world.sites) - set(self.asked) - self.away - lost:  # whose answers were lost cannot know
            self.world.sites[name].refuse(self.world.asked[-1])

    @precondition(lambda self: self.case.way != "memory" and not self.ended and self.round > 1 and self.silent())
    @rule(which=WHICH, lie=st.integers(0, 4))
    def list_that_is_not_true(self, which: int, lie: int) -> None:
        """The aggregator signs a list of submissions that leaves somebody out, or names others."""
        name, message = chosen(self.silent(), which), parsed(self.world.asked[-1])
        if name == HELPER or not message.submissions:
            return
        others = tuple(each for each in message.submissions if each[0] != name)
        lists = (
            others,
            (),
            (*others, (name, b"x" * 32)),
            (*message.submissions, ("mallory", b"x" * 32)),
            (*message.submissions, message.submissions[0]),
        )
        lying = msgspec.structs.replace(message, submissions=lists[lie])
        protection = self.world.aggregator.protection
        assert protection is not None
        self.world.sites[name].refuse(lying.protected(protection).to_bytes())

    # --- Lies that no envelope shows ----------------------------------------------------------------------------------

    @precondition(
        lambda self: (
            self.case.protocol in ("verified", "malicious")
            and self.case.way == "memory"
            and not self.ended
            and self.round > 1
            and self.silent()
        )
    )
    @rule(which=WHICH, at=WHICH, really=st.integers(0, 3))
    def another_result(self, which: int, at: int, really: int) -> None:
        """The aggregator tells one of them something else."""
        name, message = chosen(self.silent(), which), self.world.asked[-1]
        payload = bytes(parsed(message).payload)
        if really < 3 or not payload or name in self.away:
            return
        self.told_lies = True
        try:
            said = self.world.sites[name].respond(changed(message, payload=flipped(payload, at % len(payload))))
        except MessageError:
            return
        except FheAucError:
            self.away.add(name)
            return
        self.world.said[self.round, name] = said

    # --- The end ------------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self._finish()
        finally:
            self.world.end()

    def _finish(self) -> None:
        for _ in range(self.world.aggregator.rounds):
            if self.ended:
                break
            before = self.round
            try:
                for name in self.awaited():
                    self.answer(self.awaited().index(name), killed=False)
                self.finish_round(too_early=5, killed=False)
            except FheAucError:
                assert self.told_lies
                return
            if self.round == before and not self.ended:  # too few, or too near to an earlier list
                assert self.away or self.counted != self.case.parties
                return
        record = self.world.aggregator.result()
        assert record.counted == self.counted
        assert record.missing == tuple(name for name in self.case.parties if name not in self.counted)
        assert set(record.delivered) == set(self.answered)
        self.refused(self.counted[0], b"", "round")
        results = set()
        for name in set(self.counted) - self.away:
            if (self.round, name) not in self.world.said:
                self.world.said[self.round, name] = self.world.sites[name].respond(self.world.asked[-1])
            try:
                results.add(check(self.world, name, self.counted))
            except EvaluationError:
                assert self.told_lies
        assert len(results - {""}) <= 1
        for name in set(self.case.parties) - set(self.counted):
            with pytest.raises(EvaluationError):
                self.world.sites[name].outcome()


def chosen(options: Sequence[Any], which: int) -> Any:
    return options[which % len(options)]


def play(case: Case, examples: int) -> None:
    """Play so many sessions of a case; its name seeds what happens in them."""
    machine = type(case.name, (AnySession,), {"case": case})
    phases = [Phase.generate, Phase.shrink] if os.environ.get("ANY_SESSION_SHRINK") else [Phase.generate]
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=MORE or examples,
            stateful_step_count=25,
            deadline=None,
            derandomize=not MORE,
            database=None,
            phases=phases,
            suppress_health_check=list(HealthCheck),
        ),
    )
