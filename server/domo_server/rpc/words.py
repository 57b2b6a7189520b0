"""What is one word here and a number on the wire."""

from domo.api.schema import SiloPhase
from domo_proto.v1 import federation_pb2 as pb

UPLOADS = {
    "absent": pb.ABSENT,
    "partial": pb.PARTIAL,
    "accepted": pb.ACCEPTED,
    "stale": pb.STALE,
}
PHASES: dict[int, SiloPhase] = {
    pb.IDLE: "idle",
    pb.WAITING: "waiting",
    pb.DOWNLOADING: "downloading",
    pb.EVALUATING: "evaluating",
    pb.TRAINING: "training",
    pb.UPLOADING: "uploading",
}
