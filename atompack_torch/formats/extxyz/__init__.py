"""Extended XYZ: text files of molecules."""
