"""Tools behind the tools port."""
