"""What finds the numbers that prove attention's bounds; the package itself only reads and checks them."""
