"""The command `loopkernel`: run a task, chat, go on with a run; list, show and replay what was recorded."""
