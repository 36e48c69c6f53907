"""What users bring along: hooks, definitions of agents."""
