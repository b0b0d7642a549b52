"""Arrays to arrays, for every folder above; nothing here imports another folder.

checks: what callers give. arrays, columns, histograms, gaussian, neighbours: statistics of columns. lasso, logistic,
softmax, trees, one_variable: predictors, with the importance of each input. plane_turns: rotations. resampling: rank
correlations and intervals. compile: numba, which is imported when a compiled function is first called.
"""
