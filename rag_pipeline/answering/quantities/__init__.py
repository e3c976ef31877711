"""Read quantities in texts: periods, dates, sums of money and percentages."""
