"""The formats that a repaired recording can be written back in."""
