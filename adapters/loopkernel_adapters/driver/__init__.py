"""The asyncio driver: performs the effects of the kernel and feeds the reports back, log first."""
