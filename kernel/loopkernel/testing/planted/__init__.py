"""Kernels with a planted bug: ten examples (`bugs`), runs that show them (`runs`), ways to plant more (`planting`)."""
