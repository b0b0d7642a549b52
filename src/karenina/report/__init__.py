"""Pages that show a study, a run, or two runs side by side: karenina.report.page and karenina.report.compare."""
