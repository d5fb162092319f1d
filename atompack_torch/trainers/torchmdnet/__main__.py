"""``python -m atompack_torch.trainers.torchmdnet ARGS``: ``torchmd-train ARGS`` on any data."""

from atompack_torch.trainers.torchmdnet._command import main

if __name__ == "__main__":
    main()
