"""What a screen or a debugger asks of a state or a run: why, what waits, what became of an input."""
