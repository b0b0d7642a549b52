"""Arrays to arrays, for every folder above; nothing here imports another folder.

checks: what callers give. columns, histograms, gaussian: statistics of columns. lasso, logistic, ensembles,
one_variable: predictors, with the importance of each input. resampling: rank correlations and intervals. Compiled are
binned_trees, column_kernels, gaussian_sums, group_draws, lasso_kernels, lbfgs, neighbours, softmax and trees: import
them inside functions, as numba loads slowly.
"""
