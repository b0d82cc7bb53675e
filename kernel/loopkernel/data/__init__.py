"""The data of the kernel: frozen values, no behaviour but their own validity."""
