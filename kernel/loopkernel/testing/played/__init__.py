"""Runs played by hand, move by move, against any transition."""
