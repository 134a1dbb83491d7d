"""Pages: each view checks who asks, calls one selector or one service, and renders."""
