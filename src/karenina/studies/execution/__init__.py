"""Training and scoring the models of a study, in processes of this machine or on Ray, in one directory on disk."""
