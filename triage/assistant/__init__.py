"""What assistants may read over the Model Context Protocol: bounded answers with links, by the rights of a token."""
