"""Where things are kept: transcripts as JSON lines, results too big for the conversation, and in-memory twins."""
