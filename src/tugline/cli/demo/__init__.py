"""A demonstration that needs no key: a scripted model, a small project, real tools."""
