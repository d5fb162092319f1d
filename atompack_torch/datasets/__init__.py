"""Map-style data sets for ``torch.utils.data.DataLoader``, one module a format."""
