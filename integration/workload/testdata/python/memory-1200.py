block = bytearray(1200 << 20)
for i in range(0, len(block), 4096):
    block[i] = 1
