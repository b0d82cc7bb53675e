"""What guards a step: who is asked before it goes on, what does not apply, and the settings."""
