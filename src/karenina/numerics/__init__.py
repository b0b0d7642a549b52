"""Arrays to arrays, for every folder above; nothing here imports another folder.

arrays: kinds of arrays, and .npy and .npz files. checks: what callers give. columns, histograms, gaussian, neighbours:
statistics of columns. blocks: codes of interventions. lasso, logistic, trees: predictors, with the importance of each
input. resampling: rank correlations and intervals. compile: numba, which is imported when a compiled function is first
called.
"""
