"""Tools: how one is made, chosen, and the built-in ones. `tugline.tools.builtin` has a module per tool."""
