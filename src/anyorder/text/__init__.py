"""Text with blanks to tokens, and back."""
