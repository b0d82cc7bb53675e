"""Plays scenarios on the real driver, beside the pure player."""
