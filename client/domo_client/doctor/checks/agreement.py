"""What the open run wants of this silo, asked without joining, and whether its data mean that."""

from collections.abc import Iterator

import grpc

from domo.errors import AccessError, ConfigError, ProtocolError
from domo.meaning.compare import CURES, described, differences, other_code
from domo.meaning.value import NOTHING, Meaning
from domo.names import is_name
from domo.ops.findings import Finding, ok, problem, unchecked, warning
from domo_client.doctor.checks import Facts, OpenRun, Setup
from domo_client.doctor.checks.network import CALL_S, channel
from domo_client.policy.policy import Chosen
from domo_client.policy.rules import refusal, verdicts
from domo_client.rpc.control import MOST_WANTED
from domo_client.rpc.offer import Offer, understood
from domo_proto.channel import federation_stub
from domo_proto.errors import from_rpc
from domo_proto.v1 import federation_pb2 as pb


def open_run(setup: Setup, facts: Facts) -> Iterator[Finding]:
    """Which run the coordinator would offer now; nothing happens there."""
    if not is_name(setup.name):
        yield unchecked("--name must be right first")
        return
    role = pb.EVALUATOR if setup.role == "evaluator" else pb.TRAINER
    with channel(setup, facts) as way:
        try:
            request = pb.LookAtRunRequest(silo_id=setup.name, role=role)
            answer = federation_stub(way).LookAtRun(request, timeout=CALL_S)
        except grpc.RpcError as error:
            yield _unanswered(setup, error)
            return
    if not answer.HasField("offer") and answer.text:
        yield warning(answer.text, "another --name, or the admin puts this one on the roster")
        return
    if not answer.HasField("offer"):
        yield unchecked(f"no run is open to {setup.name} now, so there is nothing to compare with")
        return
    offer = answer.offer
    try:
        config = understood(offer.run_id, offer.config_json, offer.config_digest)
        wanted = NOTHING
        if answer.meaning_json:
            wanted = Meaning.from_json(answer.meaning_json, MOST_WANTED)
    except ProtocolError as error:
        yield problem(str(error), "install the same version of domo at both ends")
        return
    facts.run = OpenRun(Offer(offer.run_id, offer.title, config.task, config), wanted)
    text = f"the run {offer.run_id} is open to {setup.name}: {config.task}"
    if setup.tasks and config.task not in setup.tasks:
        mend = f"--task {config.task}, if this silo is to take part in it"
        yield warning(f"{text}, which is not among the tasks that are given", mend)
    else:
        yield ok("; ".join([text, *described(wanted)]))
    yield from _policy(setup, facts.run.offer)


def _policy(setup: Setup, offer: Offer) -> Iterator[Finding]:
    """What this silo's policy says of the open run, as far as its configuration tells."""
    try:
        chosen = Chosen.of(setup.policy, setup.state_dir, setup.shard is not None)
    except ConfigError as error:
        yield problem(str(error), "mend the policy: domo-client policy explain shows each key")
        return
    if why := refusal(verdicts(chosen.policy, offer.config)):
        text = f"this silo's policy ({chosen.source}) refuses the run {offer.run_id}: {why}"
        yield problem(text, "another run, or another policy: domo-client policy explain")


def _unanswered(setup: Setup, error: grpc.RpcError) -> Finding:
    found = from_rpc(error, setup.server or "")
    if error.code() == grpc.StatusCode.UNIMPLEMENTED:
        return unchecked("the coordinator's version of domo does not say which run is open")
    if isinstance(found, AccessError):
        return problem(str(found), "a certificate for this --name, or the name that it is for")
    return problem(f"the coordinator does not say which run is open: {found}", "see its log")


def same(setup: Setup, facts: Facts) -> Iterator[Finding]:
    """Whether the data mean what the open run wants, as the coordinator will compare it."""
    if facts.run is None:
        yield unchecked("no open run is known to compare the data with")
        return
    offer, wanted = facts.run
    work = facts.works.get(offer.task)
    if work is None:
        yield unchecked(f"{offer.task}: no data are ready to be compared with the run's")
        return
    listed = offer.config.classes is not None
    own, same_code = work.meaning, offer.config.same_code
    found = differences(own, wanted, listed=listed, same_code=same_code)
    for difference in found:
        text = f"the run {offer.run_id} would refuse these data: {difference.text}"
        yield problem(text, CURES[difference.what])
    if other_code(own, wanted) and not same_code:
        text = f"the code of {offer.task} is {own.code} here and {wanted.code} at another silo"
        yield warning(f"{text} (sha256)", CURES["code"])
    if wanted.torch and own.torch != wanted.torch:
        text = f"torch is {own.torch} here and {wanted.torch} at another silo"
        yield warning(text, "install that version here, where numbers are to be the same")
    if not found:
        yield ok(f"the data mean what the run {offer.run_id} wants")
