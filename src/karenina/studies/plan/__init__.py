"""What a study is: a grid of models, from a preset or a TOML file, and what it would cost."""
