"""``python -m atompack_torch.trainers.mace``: ``mace_run_train`` on any data."""

from atompack_torch.trainers.mace._command import main

if __name__ == "__main__":
    main()
