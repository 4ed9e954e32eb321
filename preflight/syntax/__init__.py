"""Files as the rules see them: Python by `ast`, CUDA by tree-sitter, YAML by ruamel nodes."""
