"""Nothing of a lab remains after its end: `cleanup` exists for scripts that call it."""


def cleanup() -> None:
    """Does nothing."""
