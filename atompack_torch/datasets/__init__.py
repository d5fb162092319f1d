"""Map-style data sets for ``torch.utils.data.DataLoader``, one module a format."""

from atompack_torch import _sending as _sending  # registers how batches cross processes
