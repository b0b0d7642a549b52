"""The tidy table of a study, and the scores that need several models."""
