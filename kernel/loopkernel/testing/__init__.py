"""The test kit, shipped under the extra `testing`: scenarios, strategies, and what runs and judges them."""
