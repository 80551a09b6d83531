"""Messages by any service that Apprise knows."""
