"""Files that people write in YAML: `document` reads them with the line of every value, `form` checks what they hold."""
