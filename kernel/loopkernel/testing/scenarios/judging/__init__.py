"""Compares a recorded run with what its scenario expects, and with the replay of its log."""
