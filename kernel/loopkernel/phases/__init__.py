"""What regions have come to, as the next state: shared by handlers, which know no other handler."""
