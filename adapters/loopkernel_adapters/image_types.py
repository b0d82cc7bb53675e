"""What kind of image some bytes are, by how they begin: names and labels of others may be wrong."""

BEGINNING = 16  # bytes that tell

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def image_type(beginning: bytes) -> str | None:
    """The media type of an image that begins like this; None when it is none that models take."""
    if beginning[:4] == b"RIFF" and beginning[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for signature, media_type in _SIGNATURES if beginning.startswith(signature)), None)
