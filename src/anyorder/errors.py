"""The one exception our users see: a sentence that says what is wrong and what to do."""


class AnyorderError(Exception):
    """Bad input or an unusable checkpoint. The message is one line and names the remedy.

    The command line prints it as it is and exits with status 2; a library user catches it by name.
    """
