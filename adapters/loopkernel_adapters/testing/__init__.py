"""Checks of adapters, for whoever writes one. Only tests and developers need them."""
