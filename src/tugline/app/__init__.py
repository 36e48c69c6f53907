"""The composition root: the one place that names concrete classes."""
