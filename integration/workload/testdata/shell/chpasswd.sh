echo worker:secret | chpasswd
