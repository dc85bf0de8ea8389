"""Files that other tools left: read here as they stream by, shown by `import --dry-run`, sent by `import`."""
