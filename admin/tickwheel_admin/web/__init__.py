"""What every page, endpoint and socket shares: routes, who asks, limits, errors, headers."""
