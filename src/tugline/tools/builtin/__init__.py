"""The built-in tools, one module each. They do not know each other; what several need lies one folder up."""
