"""Files in the ``.atp`` format of Atompack."""
