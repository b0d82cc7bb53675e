"""A fleet: workers that take turns at the runs of one place."""
