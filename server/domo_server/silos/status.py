"""A silo as the outside sees it."""

from domo.api.schema import SiloStatus
from domo_server.silos.session import Session
from domo_server.store.store import seconds_since, time_text


def not_seen(
    silo_id: str,
    role: str,
    software_version: str,
    dropped: str | None,
    last_seen: str | None,
    away: str,
) -> SiloStatus:
    """One that the database knows and that has not come since this coordinator started."""
    return SiloStatus(
        silo_id=silo_id,
        role="evaluator" if role == "evaluator" else "trainer",
        phase="offline",
        software_version=software_version,
        dropped=dropped,
        last_seen_s=None if last_seen is None else round(seconds_since(last_seen), 3),
        away=away,
    )


def shown(s: Session, age: float, away: str | None, dropped: str | None) -> SiloStatus:
    """One that has a session, or had one.

    Args:
        s: The session.
        age: Since when nothing was heard of it, seconds.
        away: Why nothing is heard of it; None: it is there.
        dropped: Why an admin has left it out.
    """
    return SiloStatus(
        silo_id=s.silo_id,
        role="evaluator" if s.role == "evaluator" else "trainer",
        phase=s.phase if away is None else "offline",
        doing=s.now.shown if s.now is not None and away is None else None,
        run_id=s.run_id,
        round_index=s.round_index,
        step=s.step,
        num_steps=s.num_steps,
        loss=s.loss,
        bytes_sent=s.bytes_sent,
        bytes_received=s.bytes_received,
        num_samples=s.num_samples,
        num_eval_samples=s.num_eval_samples,
        device=s.device,
        software_version=s.software_version,
        last_seen_s=round(age, 3),
        error=s.error,
        error_code=(s.error_code or None) if s.error else None,
        error_lasts=s.error_lasts and s.error is not None,
        dropped=dropped,
        resources=s.resources,
        certificate_end=time_text(s.certificate_end) if s.certificate_end else None,
        away=away,
    )
