"""Messages by bots of chat services, in the shapes of each."""
