"""Functions of secret reals over their whole domain: methods, errors and rounds."""
