"""What a message says, in the language of its channel, without any format."""
