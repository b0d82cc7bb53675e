"""The shell around the kernel: models, tools, storage, driver, command line."""
