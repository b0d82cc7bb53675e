"""One file per state: what each delta does there, and what entering the state does."""
