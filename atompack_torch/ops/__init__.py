"""Torch operators: ``torch.ops.atompack_torch.*``."""
