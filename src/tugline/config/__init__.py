"""Many sources, one frozen `Settings`: layers, origins, problems with line and column."""
