"""A turn: the user's input, the requests, the replies, what fails, and what cuts it short."""
