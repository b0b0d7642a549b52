"""The papers' analyses of a study."""
