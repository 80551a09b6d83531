"""Scripts by which bash, zsh and fish complete the command line, made from the parsers."""
