# A tmpfs for which the bundle asked no size.
head --bytes=100M /dev/zero >/mnt/tmpfs/file
