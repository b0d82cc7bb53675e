"""Models behind the provider port."""
