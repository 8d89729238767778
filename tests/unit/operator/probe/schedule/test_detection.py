"""Detection of a server's protocol, and the order of the queries."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from moorage_operator.probe.driver import Described, evidence
from moorage_operator.probe.schedule.detection import detect
from moorage_operator.probe.schedule.interrogation import ANSWERED, interrogate
from moorage_operator.values.answers import (
    BARRED,
    NOT_ASKED,
    Answer,
    AnswerReason,
    ProbeResult,
    ServerInfo,
    Spoken,
)
from moorage_operator.values.plan import ProbeTarget, Way
from support.operator_values import model, planned, pod, serving
from support.probe_targets import target

YES = Answer(verdict=True, reason=AnswerReason.READY)
NO = Answer(verdict=False, reason=AnswerReason.NOT_READY)
FOREIGN = Answer(None, AnswerReason.WRONG_PROTOCOL, "404")
REFUSED = Answer(None, AnswerReason.REFUSED, "nobody")
OIP, OIP_GRPC = ("OpenInference", "HTTP"), ("OpenInference", "GRPC")
TFS, GRPS, GRPS_GRPC = ("TensorFlowServing", "HTTP"), ("GRPS", "HTTP"), ("GRPS", "GRPC")
OPENAI = ("OpenAI", "HTTP")
WAYS = (OIP, OIP_GRPC, TFS, GRPS, GRPS_GRPC, OPENAI)


class Tongue:
    """A driver for one way, with the server's answer."""

    def __init__(self, answer: Answer = FOREIGN, *, life: Answer = FOREIGN) -> None:
        self.answer = answer
        self.life = life
        self.spoken = answer if answer.verdict is None else evidence("it says hello")
        self.questions: list[str] = []

    async def live(self, _: ProbeTarget) -> Answer:
        self.questions.append("live")
        return self.life

    async def ready(self, _: ProbeTarget) -> Answer:
        self.questions.append("ready")
        return self.life

    async def model_ready(self, _: ProbeTarget) -> Answer:
        self.questions.append("model")
        return self.answer

    async def describe(self, _: ProbeTarget) -> Described:
        return Described(ServerInfo("s"))

    async def speaks(self, asked: ProbeTarget) -> Answer:
        self.questions.append("speaks")
        assert asked.way.protocol != "Auto"
        return self.spoken

    async def bring_online(self, _: ProbeTarget) -> bool:
        return False


Server = Mapping[tuple[str, str], Tongue]


def server(speaks: Mapping[tuple[str, str], Tongue], others: Answer = FOREIGN) -> Server:
    return {way: speaks.get(way, Tongue(others)) for way in WAYS}


def asked_by(protocol: str, transport: str = "HTTP") -> ProbeTarget:
    """A target before its first poll, with the other ways."""
    of = model(protocol=protocol, transport=transport)
    return planned(of, replace(serving(of), probes={})).targets[0]


async def asked(
    drivers: Server, of: ProbeTarget, previous: ProbeResult | None = None
) -> ProbeResult:
    results = [result async for result in interrogate(drivers, of, previous, describe=False)]
    return results[-1]


def way_of(spoken: Spoken | None) -> tuple[str, str] | None:
    return (spoken.protocol, spoken.transport) if spoken else None


# ---------------------------------------------------------------------- the plan's ways


@pytest.mark.parametrize("transport", ["HTTP", "GRPC"])
def test_auto_tries_all_ways_with_the_specs_transport_first(transport: str) -> None:
    others = asked_by("Auto", transport).others

    assert {(way.protocol, way.transport) for way in others} == set(WAYS)
    first = [way.transport for way in others]
    assert first == sorted(first, key=lambda each: each != transport)
    assert others[0].protocol == "OpenInference"


def test_a_declared_protocol_has_all_other_ways_for_detection() -> None:
    others = asked_by("TensorFlowServing").others

    assert {(way.protocol, way.transport) for way in others} == set(WAYS) - {TFS}
    assert {way.port for way in others if way.transport == "GRPC"} == {8001}


def test_a_server_without_a_protocol_is_not_asked_for_one() -> None:
    of = model(protocol="None", runtime={"image": "bento:1"}, paths={"ready": "/readyz"})

    (target,) = planned(of, replace(serving(of), probes={})).targets

    assert target.others == ()
    assert (target.way.protocol, target.way.ready_path) == ("None", "/readyz")


def test_a_target_can_be_queried_in_another_way() -> None:
    way = Way("GRPS", "GRPC", 7)
    of = target(timeout_seconds=3.0)

    by = of.by(way)

    assert by.way == way
    assert (by.pod_uid, by.timeout_seconds) == (of.pod_uid, 3.0)


# ---------------------------------------------------------------------- Auto


@pytest.mark.parametrize("way", [OIP, TFS, GRPS, OPENAI])
async def test_auto_uses_the_detected_protocol(way: tuple[str, str]) -> None:
    drivers = server({way: Tongue(YES, life=YES)})

    result = await asked(drivers, asked_by("Auto"))

    assert result.model_ready == YES
    assert result.spoken
    assert (way_of(result.spoken), result.spoken.evidence) == (way, "it says hello")
    assert result.server == ServerInfo("s")


async def test_auto_uses_the_first_of_several_protocols() -> None:
    drivers = server({TFS: Tongue(YES), GRPS: Tongue(YES)})

    assert way_of((await asked(drivers, asked_by("Auto"))).spoken) == TFS


async def test_a_detected_protocol_is_kept_until_it_fails() -> None:
    drivers = server({TFS: Tongue(NO, life=YES)})
    first = await asked(drivers, asked_by("Auto"))
    await asked(drivers, asked_by("Auto"), first)
    assert drivers[OIP].questions.count("speaks") == 1

    drivers[TFS].answer = drivers[TFS].spoken = FOREIGN
    gone = await asked(drivers, asked_by("Auto"), first)

    assert gone.spoken is None
    assert gone.model_ready.reason is AnswerReason.WRONG_PROTOCOL


async def test_auto_reports_a_protocol_over_the_other_transport() -> None:
    drivers = server({GRPS_GRPC: Tongue(YES)})

    result = await asked(drivers, asked_by("Auto"))

    assert result.model_ready.reason is AnswerReason.WRONG_PROTOCOL
    assert way_of(result.spoken) == GRPS_GRPC


async def test_a_missing_server_is_not_a_protocol_mismatch() -> None:
    result = await asked(server({}, others=REFUSED), asked_by("Auto"))

    assert result.model_ready == REFUSED
    assert result.consecutive_unknown == 1


async def test_an_unknown_protocol_is_reported_with_the_queried_ones() -> None:
    found = await detect(server({TFS: Tongue(REFUSED)}), asked_by("Auto"))

    assert isinstance(found, Answer)
    assert found.reason is AnswerReason.WRONG_PROTOCOL
    assert "OpenInference, TensorFlowServing, GRPS, OpenAI" in found.message


# ---------------------------------------------------------------------- a declared protocol


async def test_a_declared_protocol_that_is_answered_is_not_detected() -> None:
    for answer in (YES, NO, replace(NO, reason=AnswerReason.MODEL_NOT_FOUND)):
        drivers = server({OIP: Tongue(answer, life=YES), TFS: Tongue(YES)})

        result = await asked(drivers, asked_by("OpenInference"))

        assert result.model_ready == answer
        assert way_of(result.spoken) == OIP
        assert drivers[TFS].questions == []


async def test_the_evidence_is_the_answer_to_the_protocols_own_query() -> None:
    drivers = server({OIP: Tongue(YES, life=YES)})
    result = await asked(drivers, asked_by("OpenInference"))
    assert result.spoken
    assert result.spoken.evidence == "it says hello"

    drivers[OIP].spoken = FOREIGN
    bare = await asked(drivers, asked_by("OpenInference"))
    assert bare.spoken
    assert bare.spoken.evidence == ANSWERED


@pytest.mark.parametrize("way", [OIP_GRPC, TFS, GRPS, GRPS_GRPC, OPENAI])
@pytest.mark.parametrize("reason", [AnswerReason.WRONG_PROTOCOL, AnswerReason.MALFORMED])
async def test_a_wrong_declaration_is_reported_with_the_detected_protocol(
    way: tuple[str, str], reason: AnswerReason
) -> None:
    drivers = server({OIP: Tongue(replace(FOREIGN, reason=reason)), way: Tongue(YES)})

    result = await asked(drivers, asked_by("OpenInference"))

    assert result.model_ready.reason is reason
    assert way_of(result.spoken) == way
    assert drivers[way].questions == ["speaks"]


async def test_an_error_status_may_come_from_a_server_of_another_protocol() -> None:
    mine = Tongue(NO, life=NO)
    mine.spoken = FOREIGN
    drivers = server({OIP: mine, TFS: Tongue(YES)})

    result = await asked(drivers, asked_by("OpenInference"))

    assert result.model_ready.reason is AnswerReason.WRONG_PROTOCOL
    assert way_of(result.spoken) == TFS


async def test_an_error_status_without_a_detected_protocol_is_kept() -> None:
    mine = Tongue(NO, life=NO)
    mine.spoken = FOREIGN

    result = await asked(server({OIP: mine}), asked_by("OpenInference"))

    assert result.model_ready == NO
    assert result.spoken is None


async def test_a_missing_server_is_not_queried_in_other_protocols() -> None:
    drivers = server({OIP: Tongue(REFUSED)})

    result = await asked(drivers, asked_by("OpenInference"))

    assert (result.model_ready, result.live) == (REFUSED, REFUSED)
    assert drivers[TFS].questions == []


def test_a_server_that_answers_as_declared_is_not_queried_in_other_protocols() -> None:
    declared, auto = model(protocol="OpenInference"), model(protocol="Auto")

    assert planned(declared, serving(declared)).targets[0].others == ()
    assert planned(auto, serving(auto)).targets[0].others


def test_a_pod_of_another_revision_is_not_a_target() -> None:
    of = model(protocol="Auto")

    assert planned(of, replace(serving(of), pods=(pod("p", "earlier"),))).targets == ()


async def test_a_protocol_without_server_readiness_needs_one_query_per_poll() -> None:
    tongue = Tongue(YES, life=NOT_ASKED)
    drivers = server({TFS: tongue})
    first = await asked(drivers, asked_by("TensorFlowServing"))
    tongue.questions.clear()

    await asked(drivers, asked_by("TensorFlowServing"), first)

    assert tongue.questions == ["model"]


# ---------------------------------------------------------------------- secured servers


@pytest.mark.parametrize("reason", sorted(BARRED))
async def test_a_secured_server_is_not_asked_further(reason: AnswerReason) -> None:
    barred = Answer(None, reason, "why")
    drivers = server({OIP: Tongue(barred)})

    result = await asked(drivers, asked_by("OpenInference"))

    assert result.model_ready == barred
    assert drivers[OIP].questions == ["model"]
    assert drivers[TFS].questions == []


async def test_auto_reports_why_a_secured_server_shows_no_protocol() -> None:
    barred = Answer(None, AnswerReason.NOT_TRUSTED, "why")

    result = await asked(server({OIP: Tongue(barred)}), asked_by("Auto"))

    assert result.model_ready == barred
    assert result.spoken is None
