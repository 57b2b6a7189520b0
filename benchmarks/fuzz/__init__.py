"""Generated input against everything that reads what a peer, a file or a browser sends."""
