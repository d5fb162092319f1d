"""ASE databases in LMDB."""
