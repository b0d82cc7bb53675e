"""Plays a scenario against a kernel in virtual time, and records what can be seen."""
