"""What a kernel in another language, or of another release, is held against: records, effects and states as bytes."""
