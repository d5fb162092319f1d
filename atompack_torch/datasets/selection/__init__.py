"""Selection of molecules by expressions over their labels, and by groups that stay together."""
