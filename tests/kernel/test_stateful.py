"""The kernel under Hypothesis' state machine: any run, judged step by step and as a whole."""

from loopkernel.testing.machine import KernelMachine

TestKernel = KernelMachine.TestCase
