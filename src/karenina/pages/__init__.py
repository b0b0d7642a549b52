"""Pages that show a study, a run, or two runs side by side: karenina.pages.page and karenina.pages.compare."""
