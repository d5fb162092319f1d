"""Map-style data sets for ``torch.utils.data.DataLoader``, one module per format."""

from atompack_torch.datasets import transport as transport  # registers how batches cross processes
