"""Map-style datasets for ``torch.utils.data.DataLoader``, independent of file formats."""
