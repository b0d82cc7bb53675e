"""A Hypothesis state machine over the kernel; `machine.KernelMachine` is the whole, the other modules are its rules."""
