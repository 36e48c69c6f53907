"""The command: arguments to one frontend, and its sub-commands."""
