"""What several test modules share: programs, data, small runs, servers and a browser."""
