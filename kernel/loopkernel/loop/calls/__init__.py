"""The calls of a reply: decided on, asked about, started, stopped, reported on and answered."""
