"""What guards a step: timers, hooks, refusals, settings, and the shown error."""
