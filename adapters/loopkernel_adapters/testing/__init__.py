"""Checks of adapters, and the simulation of the driver. Only tests and developers need them."""
