"""A run as silos are told it, and why it is not for a silo."""

from domo.names import one_line
from domo_proto.v1 import federation_pb2 as pb
from domo_server.coordinator.coordinator import Coordinator
from domo_server.runs.run import Run
from domo_server.silos.session import Session


def role_of(request: pb.JoinRequest | pb.LookAtRunRequest) -> str:
    """As what a silo comes."""
    return "evaluator" if request.role == pb.EVALUATOR else "trainer"


def offer_of(run: Run) -> pb.RunOffer | None:
    """A run as silos are told it; None: it is not there yet."""
    if run.model.layout is None:
        return None
    return pb.RunOffer(
        run_id=run.run_id,
        title=run.config.title,
        task=run.config.task,
        config_json=run.config.model_dump_json(),
        config_digest=run.config.digest,
        layout_digest=bytes.fromhex(run.model.layout.digest),
    )


def why_not(coordinator: Coordinator, session: Session) -> str:
    """Why the run under way is not offered to a silo; empty: the silo knows, or there is none."""
    run = coordinator.queue.current
    if run is None or not run.ready or run.state.ended or run.run_id in session.declined:
        return ""
    if run.roster.has_place_for(session):
        return ""
    return one_line(
        run.roster.no_place(session.silo_id, loaded=True, ended=False, role=session.role)
    )
