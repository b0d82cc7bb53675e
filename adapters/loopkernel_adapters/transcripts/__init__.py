"""Readers of recorded agent runs, one file a format, and what is made of what they read."""
