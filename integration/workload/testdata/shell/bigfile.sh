# Sparse: it is the size that counts, not the blocks.
truncate -s 20G sparse
