"""The scenario format: YAML in and out, with every fault told by file, line and key."""
