"""The loop: one transition, and the rooms that it is made of, each resting on those before it."""
