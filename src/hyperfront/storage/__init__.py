"""Files and what goes into them: checkpoints, provenance, locks, trees of tensors."""
