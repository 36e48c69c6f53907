"""What users bring along: hooks."""
