"""Files and their contents: checkpoints, provenance, locks, trees of tensors."""
