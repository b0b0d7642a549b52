"""The clustering task and study: does a better representation make an agent learn faster? (Duan et al. 2020, A.8)."""
