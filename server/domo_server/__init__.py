"""The coordinator: owns x_r and m_r, runs the rounds, serves models, REST and the dashboard."""

import domo_proto  # noqa: F401  before grpc, which it quiets
