"""`tugline sessions`: list, read, search, export, name and put away what is on the disk."""
