"""Arrays to arrays, for every folder above: histograms, dependence between columns, intervals of medians."""
