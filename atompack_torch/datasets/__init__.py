"""Map-style datasets for ``torch.utils.data.DataLoader``: all that knows no file format."""
