"""The thread: what goes into it, how it is made smaller, and how one from elsewhere begins it."""
