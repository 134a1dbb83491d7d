"""Pages: each view checks permissions, calls one selector or one service, and renders."""
