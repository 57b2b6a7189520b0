"""Figures of the dashboard: from event to screen, what an open page costs, REST beside a sum."""
