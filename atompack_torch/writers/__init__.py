"""Writers of molecules and examples, and rewriting of files."""
