"""Small operations that dominate a step, each with a plain PyTorch twin."""
