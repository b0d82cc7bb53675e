"""Measurements of cost, always as ratios within one run: `python -m bench`. Nothing here is asserted by a test."""
