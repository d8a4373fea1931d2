"""Models: loading of checkpoints by name, their facts and memory needs, and chat templates."""
