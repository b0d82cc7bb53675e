"""Logs behind the store port."""
