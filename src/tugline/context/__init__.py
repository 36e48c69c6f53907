"""What goes into the prompt from outside the conversation."""
