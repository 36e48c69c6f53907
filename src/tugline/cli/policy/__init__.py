"""`tugline policy`: what the rules decide, without running anything."""
