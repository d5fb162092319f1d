"""Objects in remote stores: URLs, credentials, listing and uploading.

The native client is loaded by ``remote.client`` alone, when the first URL is opened.
"""

from atompack_torch.options import shown_url
from atompack_torch.remote.urls import StorageOptions

__all__ = ["StorageOptions", "shown_url"]
