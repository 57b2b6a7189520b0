"""The coordinator: owns x_r and m_r, runs the rounds, serves models, REST and the dashboard."""
