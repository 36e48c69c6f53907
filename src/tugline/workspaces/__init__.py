"""Files and processes that an agent may touch."""
