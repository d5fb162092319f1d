"""Operators of torch: ``torch.ops.atompack_torch.*``."""
