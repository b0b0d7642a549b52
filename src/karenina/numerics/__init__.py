"""Arrays to arrays, for every folder above; nothing here imports another folder.

checks: what callers give. columns, histograms, neighbours, gaussian, medians: statistics of columns. lasso, logistic,
boosting, forests, one_variable: predictors, with the importance of each input. Names of compiled modules end in
_kernels, or say what they grow and draw; import them inside functions, as numba loads slowly.
"""
