"""``python -m atompack_torch.trainers.sevennet``: the command ``sevenn`` on any data."""

from atompack_torch.trainers.sevennet._command import main

if __name__ == "__main__":
    main()
