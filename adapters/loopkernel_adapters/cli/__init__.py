"""The command `loopkernel`: run a task, show the demonstration, replay a log."""
