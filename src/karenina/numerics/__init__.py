"""Arrays to arrays, for every folder above; nothing here imports another folder.

checks: what callers give. columns, histograms, neighbours, gaussian, medians: statistics of columns. lasso, logistic,
boosting, forests, one_variable: predictors, with the importance of each input. resampling: rank correlations and
intervals. Compiled are binned_trees, class_neighbours, column_kernels, gaussian_sums, group_draws, lasso_kernels,
lbfgs, softmax_kernels and trees: import them inside functions, as numba loads slowly.
"""
