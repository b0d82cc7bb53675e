"""Scenarios: what a model, tools, a user and a clock do, and what the loop must then do (`specs/scenarios/README.md`).

`data` is a scenario in memory, `format` reads and writes it as YAML, `player` runs it in virtual time, and `judging`
compares what was seen with what is expected. `judge` does all of that with one scenario; `command` is
`python -m loopkernel.testing.scenarios PATH...`.
"""
