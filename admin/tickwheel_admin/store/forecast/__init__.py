"""What forecasts are made of."""
