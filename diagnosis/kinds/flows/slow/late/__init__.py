"""Members that are late: by what they compute, not by the fabric."""
