"""The embedded model, on this machine and without a key. Needs the extra `local`."""
