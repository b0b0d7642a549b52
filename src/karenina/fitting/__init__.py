"""Images without labels -> a population of models, the one to take, and how sure that is: `karenina.fit`."""
